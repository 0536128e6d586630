"""No file and no function outgrows what can be read at a glance."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_FILE, MAX_FUNCTION = 300, 50
"""Lines of a file, and of a function without its head and its docstring."""
MAX_WHOLE = 400
WHOLE = {
    "src/unitail/encoders/tables.py": "what a column is, learns and becomes",
    "src/unitail/relational/block.py": "a layer as it is defined, and as it runs",
    "src/unitail/relational/model.py": "the model, and what it keeps of a support",
    "src/unitail/relational/geometry.py": "what is measured of vectors, from each centre",
}
"""Files that may be longer: one concept each, which would be read in two files at a time."""


def too_long(text: str, most: int = MAX_FILE) -> Iterator[str]:
    """Name the file, and those of its functions, that have too many lines."""
    lines = text.count("\n")
    if lines > most:
        yield f"the file: {lines} lines, at most {most}"
    if lines <= MAX_FUNCTION:
        return
    for node in ast.walk(ast.parse(text)):
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
    most = {name: MAX_WHOLE if name in WHOLE else MAX_FILE for name in names}
    found = {name: [*too_long(text, most[name])] for name, text in names.items()}
    assert {path: faults for path, faults in found.items() if faults} == {}


@pytest.mark.parametrize("path", WHOLE)
def test_only_files_that_need_it_may_be_longer(path: str) -> None:
    assert (ROOT / path).read_text().count("\n") > MAX_FILE, "take it off the list"


def function(lines: int) -> str:
    return 'def long(\n    a: int,\n) -> None:\n    """Say so."""\n' + "    a += 1\n" * lines


def test_what_is_too_long_is_named() -> None:
    assert [*too_long(function(MAX_FUNCTION))] == []
    assert [*too_long(function(MAX_FUNCTION + 1))] == ["long: 51 lines, at most 50"]
    assert [*too_long("a = 1\n" * MAX_FILE)] == []
    assert [*too_long("a = 1\n" * (MAX_FILE + 1))] == ["the file: 301 lines, at most 300"]
