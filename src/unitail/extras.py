"""Optional packages, imported where they are needed."""

from importlib import import_module
from typing import Any

from unitail.errors import MissingExtra


def optional(module: str, *, extra: str) -> Any:  # noqa: ANN401 - optional packages have no types here
    """Import a module of an extra, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(module.split(".")[0], extra, str(error)) from error
