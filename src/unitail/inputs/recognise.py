"""Recognise the modality of files by their suffixes, and of X by its types."""

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
from unitail.inputs.cells import is_missing
from unitail.wording import numbered

SUFFIXES: dict[Modality, tuple[str, ...]] = {
    Modality.IMAGE: (
        ".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm",
        ".avif", ".jp2", ".tga", ".heic", ".heif",
    ),
    Modality.AUDIO: (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff"),
    Modality.TEXT: (".txt", ".text", ".md"),
}  # fmt: skip
"""Suffixes of files that are one item each."""


def modality_of(path: Path) -> Modality | None:
    """Return the modality of a file; None for tables (their rows are items) and unknown kinds."""
    suffix = path.suffix.lower()
    return next((kind for kind, suffixes in SUFFIXES.items() if suffix in suffixes), None)


def common_modality(files: Iterable[Path], where: str) -> Modality:
    """Return the only modality among files, ignoring unknown kinds; several are an error."""
    counts = Counter(kind for file in files if (kind := modality_of(file)) is not None)
    if len(counts) == 1:
        return next(iter(counts))
    if counts:
        raise InvalidInput(
            f"{where} holds files of several kinds",
            got=", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())),
            allowed="files of one kind",
            remedy=f"Choose one: {' or '.join(f'--modality {kind}' for kind in sorted(counts))}.",
        )
    raise InvalidInput(
        f"{where} holds no images, sounds or texts", got="no such file", allowed=known_suffixes()
    )


def known_suffixes(only: Modality | None = None) -> str:
    """List the supported suffixes, of all modalities or of one, for messages."""
    kinds = SUFFIXES if only is None else {only: SUFFIXES.get(only, ())}
    return "; ".join(f"{kind}: {' '.join(suffixes)}" for kind, suffixes in kinds.items())


def recognise(rows: Any) -> Modality | None:  # noqa: ANN401 - whatever users give
    """Return the modality of X; None for vectors, which scikit-learn checks further."""
    if is_frame(rows):
        return Modality.TABLE
    if _is_array(rows):
        return Modality.IMAGE if rows.dtype == np.uint8 and rows.ndim in (3, 4) else None
    items = listed(rows)
    files = are_files(items)
    kinds = dict.fromkeys(
        kind_of_item(Path(item) if files and isinstance(item, str) else item) for item in items
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
    """Return whether X is a pandas DataFrame."""
    return is_of("pandas", "DataFrame", rows)


def listed(rows: Any) -> list[Any]:  # noqa: ANN401 - whatever users give
    """Return the items of X as a list; missing texts or paths are an error."""
    items = listed_with_gaps(rows)
    _require_none_missing(items)
    return items


def listed_with_gaps(rows: Any) -> list[Any]:  # noqa: ANN401 - whatever users give
    """Return the items of X as a list; some may be missing."""
    if isinstance(rows, list | tuple | np.ndarray) or is_of("pandas", "Series", rows):
        return list(rows)
    raise InvalidInput(
        "X is not a list of items",
        got=type(rows).__name__,
        allowed="a list of paths, texts, images or sounds",
        remedy="Put the items into a list; tables need encoder='auto'.",
    )


def _require_none_missing(items: list[Any]) -> None:
    """Raise an error if a text or a path is missing."""
    if not any(isinstance(item, str | Path) for item in items):
        return
    missing = [place for place, item in enumerate(items) if is_missing(item)]
    if missing:
        raise InvalidInput(
            f"X has {numbered(len(missing), 'missing item')}",
            got=f"{items[missing[0]]!r} at index {missing[0]}",
            allowed="a text or a path for each item",
            remedy="Remove the missing items, and their labels.",
        )


def is_blank(item: object) -> bool:
    """Return whether an item is missing, or a text of white space."""
    return is_missing(item) or (isinstance(item, str) and not item.strip())


def look_like_files(texts: Collection[str]) -> bool:
    """Return whether there are texts and all of them end in a supported suffix."""
    named = all("\n" not in text and modality_of(Path(text)) is not None for text in texts)
    return named and len(texts) > 0


def are_files(items: Iterable[object]) -> bool:
    """Return whether the strings among items are file names rather than texts.

    All must end in a supported suffix, and text files must exist. Images and sounds need not: texts
    never all end in such a suffix, and reporting a missing file beats reading its name as text.
    """
    names = [item for item in items if isinstance(item, str)]
    if not look_like_files(names):
        return False
    texts = [name for name in names if modality_of(Path(name)) is Modality.TEXT]
    return not texts or all(map(os.path.isfile, names))


def kind_of_item(item: object) -> Modality | None:
    """Return the modality of one item; None for a vector."""
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
    """Return whether X is one array of numbers, from numpy or another library, dense or sparse."""
    if isinstance(rows, np.ndarray):
        return rows.dtype.kind not in "OUST"
    return hasattr(rows, "shape") and not is_of("pandas", "Series", rows)


def is_of(library: str, kind: str, rows: object) -> bool:
    """Return whether X is an instance of a library's class, without importing the library."""
    module = sys.modules.get(library)
    return module is not None and isinstance(rows, getattr(module, kind))
