"""Items that were found for an encoder, and what was passed over."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unitail.encoders.encoder import Modality

LONGEST_NAME = 120
"""A text is named by so many of its letters."""
CONTROLS = dict.fromkeys([*range(32), *range(127, 160)], "\N{REPLACEMENT CHARACTER}")
"""Letters that would steer the terminal, and what stands for them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Items:
    """What a source holds, in an order that depends on names alone."""

    items: Sequence[Any]
    """Paths or texts; for tables a DataFrame, whose rows are the items."""
    names: tuple[str, ...]
    """What to call each item before the user."""
    modality: Modality
    ignored: tuple[str, ...] = ()
    """What was passed over and why, a phrase each."""
    content_column: str | None = None
    """The column of a table that the texts or paths came from."""

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledItems(Items):
    """Items of known classes."""

    labels: tuple[str, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels, sorted, each once."""
        return tuple(sorted(set(self.labels)))


def shown(path: Path | str) -> str:
    """Write a path so that any terminal and file takes it, whatever bytes its name is made of."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return text.replace(os.sep, "/").translate(CONTROLS)


def excerpt(text: str, length: int = LONGEST_NAME) -> str:
    """Write the beginning of a text on one line."""
    line = " ".join(text[: 4 * length].split()).translate(CONTROLS)
    return line if len(line) <= length else line[: length - 1] + "…"


def numbered(number: int, noun: str) -> str:
    """Count things in English."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
