import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import unitail
from unitail import errors


@pytest.mark.parametrize("name", unitail.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(unitail, name) is not None


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(unitail.__file__).read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen: dict[str, list[str]] = {}
    for line in block.body:
        assert isinstance(line, ast.ImportFrom)
        [name] = line.names
        assert name.asname == name.name  # that is how a stub exports
        seen.setdefault(str(line.module).removeprefix("unitail."), []).append(name.name)
    assert seen == {home: names.split() for home, names in unitail._HOMES.items()}


def test_all_errors_are_public() -> None:
    defined = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.UnitailError)
    }
    assert defined <= set(unitail.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'unitail' has no attribute 'nothing'"):
        unitail.nothing  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import sys, unitail; print('torch' in sys.modules, len(dir(unitail)))"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["False", str(len(unitail.__all__) + 1)]
