"""The packages of the extra `report`, imported where they are needed."""

from importlib import import_module
from typing import Any

from unitail.errors import UserError

PACKAGES = ("pandas", "pyarrow.parquet", "matplotlib")


def optional(module: str) -> Any:  # noqa: ANN401 - optional packages have no types here
    """Import a module of the extra, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(
            f"{module.split('.')[0]} is not installed",
            got=str(error),
            allowed="the packages of the extra 'report'",
            remedy="Run `pip install 'unitail[report]'`.",
        ) from error


def require_report_extra() -> None:
    """Refuse to begin what could not be reported."""
    for module in PACKAGES:
        optional(module)
