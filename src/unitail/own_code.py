"""Loading objects from a user's own Python file: FILE.py:NAME on the command line.

Loading runs the file. So only names typed on the command line are accepted, never names from a
suite, a recipe or a saved model.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from unitail.errors import UserError
from unitail.wording import shown, some

MARK = ".py:"


def is_own(name: str) -> bool:
    """Return whether a name has the form FILE.py:NAME, unlike the names of the package."""
    return MARK in name


def own_object(name: str, *methods: str) -> Any:  # noqa: ANN401 - whatever the user wrote
    """Run FILE.py and return its NAME, or, if that is a class, an instance of it.

    The class is called without arguments. The object must have the named methods.
    """
    file, _, inside = name.rpartition(":")
    path = Path(file)
    module = _module(path)
    result = getattr(module, inside, None)
    if result is None:
        names = [each for each in vars(module) if not each.startswith("_")]
        raise UserError(
            f"{shown(path)} has no {inside!r}",
            got=name,
            allowed=some(names, 10) or "a file that defines something",
            remedy="Name an object that the file defines: FILE.py:NAME.",
        )
    if isinstance(result, type):
        try:
            result = result()
        except TypeError as error:
            raise UserError(
                f"{name} cannot be created",
                got=str(error),
                allowed="a class without arguments, or an object",
                remedy=f"Create one in the file, mine = {inside}(...), and name that.",
            ) from error
    lacking = [method for method in methods if not callable(getattr(result, method, None))]
    if lacking:
        raise UserError(
            f"{name} lacks methods that it needs",
            got=f"{type(result).__name__} without {', '.join(lacking)}",
            allowed=f"an object with {', '.join(methods)}, or a class of such",
        )
    return result


def _module(path: Path) -> Any:  # noqa: ANN401 - a module
    """Run a Python file and return it as a module; its errors are reported to the user."""
    if not path.is_file():
        raise UserError(
            f"{shown(path)} does not exist",
            got="no such file",
            allowed="FILE.py:NAME of a Python file",
            remedy="Check the name and the current folder.",
        )
    name = f"unitail.own_code.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(
            f"{shown(path)} cannot be run",
            got=f"{type(error).__name__}: {error}",
            allowed="a Python file that runs by itself",
            remedy="Try it: python FILE.py.",
        ) from error
    return module
