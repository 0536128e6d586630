"""What can be seen in a plot: where its pixels have the colour of a line."""

import io
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray
from PIL import Image

TOLERANCE = 40
"""Of a colour's channels, 0 to 255: smoothed edges and markers count."""


def pixels(png: bytes) -> NDArray[Any]:
    """Read a picture as (height, width, 3)."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def coloured(png: bytes, colour: str) -> NDArray[Any]:
    """Return the places, (count, 2) as row and column, of matplotlib's colour: C0, C1, ..."""
    wanted = np.rint(255 * np.array(to_rgb(colour)))
    return np.argwhere(np.abs(pixels(png) - wanted).max(axis=-1) < TOLERANCE)
