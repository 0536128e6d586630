"""No file and no function outgrows what can be read at a glance."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_FILE, MAX_FUNCTION = 400, 50
"""Lines of a file, and of a function, without docstrings; of a function without its head, too."""
MAX_EXEMPT = 500
EXEMPT = {
    "src/unitail/estimator/classifier.py": "the class that users call, each method with its page",
}
"""Files that may be longer: one concept each, which would be read in two files at a time."""


def docstring_lines(node: ast.AST) -> int:
    """Count the lines of a docstring, if there is one; of a field, those of what describes it."""
    body = getattr(node, "body", [])
    texts = [
        each
        for each in (body if isinstance(body, list) else [])
        if isinstance(each, ast.Expr)
        and isinstance(each.value, ast.Constant)
        and isinstance(each.value.value, str)
    ]
    return sum((each.end_lineno or 0) - each.lineno + 1 for each in texts)


def too_long(text: str, max_lines: int = MAX_FILE) -> Iterator[str]:
    """Name the file, and those of its functions, that have too many lines."""
    lines = text.count("\n")
    if lines <= MAX_FUNCTION:
        return
    nodes = list(ast.walk(ast.parse(text)))
    code = lines - sum(map(docstring_lines, nodes))
    if code > max_lines:
        yield f"the file: {code} lines, at most {max_lines}"
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, *rest = node.body
            if ast.get_docstring(node, clean=False) is not None and rest:
                first = rest[0]
            length = (node.end_lineno or 0) - first.lineno + 1
            if length > MAX_FUNCTION:
                yield f"{node.name}: {length} lines, at most {MAX_FUNCTION}"


@pytest.mark.parametrize("folder", ["src", "tests", "bench", "examples", "tools"])
def test_files_and_functions_are_short(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert len(paths) > 2
    names = {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}
    limits = {name: MAX_EXEMPT if name in EXEMPT else MAX_FILE for name in names}
    faults_of = {name: [*too_long(text, limits[name])] for name, text in names.items()}
    assert {path: faults for path, faults in faults_of.items() if faults} == {}


@pytest.mark.parametrize("path", EXEMPT)
def test_only_files_that_need_it_may_be_longer(path: str) -> None:
    assert [*too_long((ROOT / path).read_text())], "take it off the list"


def function(lines: int) -> str:
    return 'def long(\n    a: int,\n) -> None:\n    """Say so."""\n' + "    a += 1\n" * lines


def test_what_is_too_long_is_named() -> None:
    assert [*too_long(function(MAX_FUNCTION))] == []
    assert [*too_long(function(MAX_FUNCTION + 1))] == ["long: 51 lines, at most 50"]
    assert [*too_long("a = 1\n" * MAX_FILE)] == []
    assert [*too_long("a = 1\n" * (MAX_FILE + 1))] == ["the file: 401 lines, at most 400"]


def test_docstrings_do_not_count() -> None:
    text = '"""What it is.\n\nAnd why.\n"""\n' + "a = 1\n" * (MAX_FILE - 1)
    assert [*too_long(text + '"""Of a field."""\n')] == []
    assert [*too_long(text + 'b = """Not a docstring."""\na = 1\n')] != []
