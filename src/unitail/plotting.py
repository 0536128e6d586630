"""Helpers for plots that are rendered to PNG, without a window."""

import io
from typing import TYPE_CHECKING

from unitail.errors import optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 130


def make_panels(
    rows: int, columns: int, size: tuple[float, float], *, sharey: bool = False
) -> tuple["Figure", list["Axes"]]:
    """Return a figure of `size` (width, height) in inches, and the flat list of its panels."""
    figure = optional("matplotlib.figure", extra="report").Figure(size, layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, sharey=sharey).ravel())


def as_png(figure: "Figure", dpi: int = DPI) -> bytes:
    """Return the figure as PNG bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()
