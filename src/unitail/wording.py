"""How messages and pages write names, counts, lists and tables."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

MAX_EXCERPT = 120
"""Characters of a text that stand for it."""
CONTROL_CHARACTERS = dict.fromkeys([*range(32), *range(127, 160)], "\N{REPLACEMENT CHARACTER}")
"""What would steer the terminal, and what stands for it."""


def shown(path: Path | str) -> str:
    """Write a path so that any terminal and file takes it, whatever bytes its name is made of."""
    return exact(path).translate(CONTROL_CHARACTERS)


def one_line(text: str) -> str:
    """Write a text, whatever names it holds, on one line that any terminal takes."""
    return " ".join(text.splitlines()).translate(CONTROL_CHARACTERS)


def exact(path: Path | str) -> str:
    """Write a path so that it leads to the file again, unless its name is not text at all."""
    return os.fsencode(path).decode("utf-8", "replace").replace(os.sep, "/")


def excerpt(text: str, length: int = MAX_EXCERPT) -> str:
    """Write the beginning of a text on one line."""
    line = " ".join(text[: 4 * length].split()).translate(CONTROL_CHARACTERS)
    return line if len(line) <= length else line[: length - 1] + "…"


def numbered(number: int, noun: str) -> str:
    """Count things: "1 file", "2,000 files", "3 classes"."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def some(names: Iterable[object], most: int = 3, *, separator: str = ", ") -> str:
    """List the first few: "a, b and 3 more"."""
    texts = [str(name) for name in names]
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], rule: str = "---:") -> str:
    """Write a table in Markdown; all columns but the first are aligned as `rule` says."""
    rules = ["---", *[rule] * (len(header) - 1)]
    lines = [f"| {' | '.join(cells)} |" for cells in (header, rules, *rows)]
    return "\n".join(lines)
