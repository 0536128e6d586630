"""What a user wrote in a Python file of their own: FILE.py:NAME on the command line.

To read it is to run the file. So only what somebody types after an option is taken, never a name
that stands in a suite, a recipe or a saved model.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from unitail.errors import UserError
from unitail.wording import shown, some

MARK = ".py:"


def is_own(name: str) -> bool:
    """Tell FILE.py:NAME from the names that the package knows."""
    return MARK in name


def own_object(name: str, *methods: str) -> Any:  # noqa: ANN401 - whatever the user wrote
    """Run FILE.py and return NAME of it; of a class, an object made without arguments.

    It must have the methods.
    """
    file, _, inside = name.rpartition(":")
    path = Path(file)
    module = _module(path)
    made = getattr(module, inside, None)
    if made is None:
        names = [each for each in vars(module) if not each.startswith("_")]
        raise UserError(
            f"{shown(path)} has no {inside!r}",
            got=name,
            allowed=some(names, 10) or "a file that defines something",
            remedy="Name what is to be taken from the file: FILE.py:NAME.",
        )
    if isinstance(made, type):
        try:
            made = made()
        except TypeError as error:
            raise UserError(
                f"{name} cannot be made",
                got=str(error),
                allowed="a class without arguments, or an object",
                remedy=f"Make one in the file: mine = {inside}(...), and name that.",
            ) from error
    lacking = [method for method in methods if not callable(getattr(made, method, None))]
    if lacking:
        raise UserError(
            f"{name} lacks what it needs",
            got=f"{type(made).__name__} without {', '.join(lacking)}",
            allowed=f"an object with {', '.join(methods)}, or a class of such",
        )
    return made


def _module(path: Path) -> Any:  # noqa: ANN401 - a module
    """Run a file once; what goes wrong inside is the user's to see."""
    if not path.is_file():
        raise UserError(
            f"{shown(path)} is not there",
            got="no such file",
            allowed="FILE.py:NAME of a Python file",
            remedy="Check the name, and the folder that you are in.",
        )
    name = f"unitail.own_code.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
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
