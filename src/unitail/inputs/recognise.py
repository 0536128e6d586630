"""What files hold, by their suffixes, and what X holds, by its types."""

import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from unitail.encoders.encoder import Modality
from unitail.encoders.images import is_image
from unitail.encoders.sounds import is_sound
from unitail.errors import InvalidInput
from unitail.inputs.cells import is_gap
from unitail.wording import numbered

SUFFIXES: dict[Modality, tuple[str, ...]] = {
    Modality.IMAGE: (
        ".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm",
        ".avif", ".jp2", ".tga", ".heic", ".heif",
    ),
    Modality.AUDIO: (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff"),
    Modality.TEXT: (".txt", ".text", ".md"),
}  # fmt: skip
"""A file with one of these is one item."""


def modality_of(path: Path) -> Modality | None:
    """Say what a file is; None for tables, whose rows are the items, and for all other kinds."""
    suffix = path.suffix.lower()
    return next((kind for kind, suffixes in SUFFIXES.items() if suffix in suffixes), None)


def common_modality(files: Iterable[Path], where: str) -> Modality:
    """Say what all files are; other kinds do not count, and no kind wins by being the larger."""
    counts = Counter(kind for file in files if (kind := modality_of(file)) is not None)
    if len(counts) == 1:
        return next(iter(counts))
    if counts:
        raise InvalidInput(
            f"{where} holds files of several kinds",
            got=", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())),
            allowed="files of one kind",
            remedy=f"Say which: {' or '.join(f'--modality {kind}' for kind in sorted(counts))}.",
        )
    raise InvalidInput(
        f"{where} holds no images, sounds or texts", got="no such file", allowed=known_suffixes()
    )


def known_suffixes(only: Modality | None = None) -> str:
    """List what is read, of all kinds or of one, for messages."""
    kinds = SUFFIXES if only is None else {only: SUFFIXES.get(only, ())}
    return "; ".join(f"{kind}: {' '.join(suffixes)}" for kind, suffixes in kinds.items())


def recognise(rows: Any) -> Modality | None:  # noqa: ANN401 - whatever users give
    """Say what X holds; None for vectors, which scikit-learn checks further."""
    if is_frame(rows):
        return Modality.TABLE
    if _is_array(rows):
        return Modality.IMAGE if rows.dtype == np.uint8 and rows.ndim in (3, 4) else None
    items = listed(rows)
    files = are_files(items)
    kinds = dict.fromkeys(
        kind_of_item(Path(x) if files and isinstance(x, str) else x) for x in items
    )
    if len(kinds) > 1:
        raise InvalidInput(
            "X holds items of several kinds",
            got=" and ".join(str(kind or "vector") for kind in kinds),
            allowed="items of one kind",
            remedy="Fit one classifier for each kind.",
        )
    return next(iter(kinds), None)


def is_frame(rows: object) -> bool:
    """Tell whether X is a table."""
    return _is_of_pandas(rows, "DataFrame")


def listed(rows: Any) -> list[Any]:  # noqa: ANN401 - whatever users give
    """Return the items of X, none of which may be missing."""
    items = listed_with_gaps(rows)
    _check_none_missing(items)
    return items


def listed_with_gaps(rows: Any) -> list[Any]:  # noqa: ANN401 - whatever users give
    """Return the items of X."""
    if isinstance(rows, list | tuple | np.ndarray) or _is_of_pandas(rows, "Series"):
        return list(rows)
    raise InvalidInput(
        "X is not a list of items",
        got=type(rows).__name__,
        allowed="a list of paths, texts, images or sounds",
        remedy="Put the items into a list; tables need encoder='auto'.",
    )


def _check_none_missing(items: list[Any]) -> None:
    """Refuse a gap among texts or names of files."""
    if not any(isinstance(item, str | Path) for item in items):
        return
    gaps = [place for place, item in enumerate(items) if is_gap(item)]
    if gaps:
        raise InvalidInput(
            f"{numbered(len(gaps), 'item')} of X missing",
            got=f"{items[gaps[0]]!r} at place {gaps[0]} (the first is 0)",
            allowed="a text or a path in each place",
            remedy="Leave the gaps out, with their labels.",
        )


def says_nothing(item: object) -> bool:
    """Tell whether an item is missing, or a text without characters."""
    return is_gap(item) or (isinstance(item, str) and not item.strip())


def look_like_files(texts: Collection[str]) -> bool:
    """Tell whether all texts end like names of files that are read, and there are any."""
    named = all("\n" not in text and modality_of(Path(text)) is not None for text in texts)
    return named and len(texts) > 0


def are_files(items: Iterable[object]) -> bool:
    """Tell whether the strings among items are names of files rather than texts.

    They are if all look so, and there are such files. Images and sounds need not exist: nobody's
    texts all end so, and a missing file is better told than read as text.
    """
    names = [item for item in items if isinstance(item, str)]
    if not look_like_files(names):
        return False
    texts = [name for name in names if modality_of(Path(name)) is Modality.TEXT]
    return not texts or all(map(os.path.isfile, names))


def kind_of_item(item: object) -> Modality | None:
    """Say what one item is; None for a vector."""
    if isinstance(item, str):
        return Modality.TEXT
    if isinstance(item, Path):
        return _kind_of_file(item)
    if is_image(item):
        return Modality.IMAGE
    if is_sound(item):
        return Modality.AUDIO
    if isinstance(item, np.ndarray):
        has_pixels = item.ndim == 3 or (item.ndim == 2 and item.dtype == np.uint8)
        return Modality.IMAGE if has_pixels else None
    if isinstance(item, list | tuple | int | float | np.number):
        return None
    raise InvalidInput(
        "X holds items of a type that is not recognised",
        got=type(item).__name__,
        allowed="vectors, paths, texts, images, or pairs (samples, rate)",
        remedy="Convert them, or name the encoder that takes them.",
    )


def _kind_of_file(path: Path) -> Modality:
    kind = modality_of(path)
    if kind is None:
        raise InvalidInput(
            f"{path} is not recognised by its suffix",
            got=path.suffix or "no suffix",
            allowed=known_suffixes(),
            remedy="Name the encoder that takes such files.",
        )
    return kind


def _is_array(rows: object) -> bool:
    """Tell whether X is one array of numbers, of numpy or another library, dense or sparse."""
    if isinstance(rows, np.ndarray):
        return rows.dtype.kind not in "OUST"
    return hasattr(rows, "shape") and not _is_of_pandas(rows, "Series")


def _is_of_pandas(rows: object, kind: str) -> bool:
    """Tell whether X is of a class of pandas, which is not imported for that."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, getattr(pandas, kind))
