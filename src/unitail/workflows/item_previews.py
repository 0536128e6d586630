"""A small image, the beginning of a text, a cell in words: what pages show of an item."""

import io
import math
from pathlib import Path

from unitail.encoders.images import read_image


def jpeg_preview(item: object, side: int, quality: int) -> bytes:
    """Return an image as JPEG, turned as it should be, its longer side at most this many pixels."""
    image = read_image(item)
    image.thumbnail((side, side))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def text_preview(item: object, most: int) -> str:
    """Return the first characters of a text or a file of one; nothing if that cannot be read."""
    if not isinstance(item, Path):
        text = str(item)
    else:
        try:
            with item.open("rb") as file:
                text = file.read(4 * most + 4).decode("utf-8-sig", "replace").strip()
        except OSError:
            return ""
    return text if len(text) <= most else f"{text[:most].rstrip()} …"


def cell_preview(value: object, *, missing: str) -> str:
    """Write a cell of a table; `missing` stands for one that is not there."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return missing
    return f"{value:g}" if isinstance(value, float) else str(value)
