"""What files hold, by their suffixes."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput

SUFFIXES: dict[Modality, tuple[str, ...]] = {
    Modality.IMAGE: (
        ".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm",
        ".avif", ".jp2", ".tga",
    ),
    Modality.AUDIO: (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff"),
    Modality.TEXT: (".txt", ".text", ".md"),
}  # fmt: skip
"""A file with one of these is one item."""
TABLES = (".csv", ".tsv", ".parquet", ".pq", ".jsonl", ".ndjson", ".xlsx")
"""A file with one of these holds one item in each row."""


def modality_of(path: Path) -> Modality | None:
    """Say what a file is; None for tables, whose rows are the items, and for all other kinds."""
    suffix = path.suffix.lower()
    return next((kind for kind, suffixes in SUFFIXES.items() if suffix in suffixes), None)


def is_table(path: Path) -> bool:
    """Say whether a file holds one item in each row."""
    return path.suffix.lower() in TABLES


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
            remedy=f"Choose the modality: {' or '.join(sorted(counts))}.",
        )
    raise InvalidInput(
        f"{where} holds no images, sounds or texts", got="no such file", allowed=known_suffixes()
    )


def known_suffixes() -> str:
    """List what is read, for messages."""
    return "; ".join(f"{kind}: {' '.join(suffixes)}" for kind, suffixes in SUFFIXES.items())
