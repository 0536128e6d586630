"""The packages of the extra `report`, imported where they are needed."""

from typing import Any

from unitail.extras import optional as optional_of

PACKAGES = ("pandas", "pyarrow.parquet", "matplotlib")


def optional(module: str) -> Any:  # noqa: ANN401 - optional packages have no types here
    """Import a module of the extra, or say how to install it."""
    return optional_of(module, extra="report")


def require_report_extra() -> None:
    """Refuse to begin what could not be reported."""
    for module in PACKAGES:
        optional(module)
