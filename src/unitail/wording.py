"""Formatting of names, counts, lists and tables in messages and pages."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

MAX_EXCERPT = 120
"""Default length of an excerpt, in characters."""
CONTROL_CHARACTERS = dict.fromkeys([*range(32), *range(127, 160)], "\N{REPLACEMENT CHARACTER}")
"""Translation table that replaces control characters, which could affect the terminal."""


def shown(path: Path | str) -> str:
    """Return a path as text that is safe to print, whatever bytes its name consists of."""
    return exact(path).translate(CONTROL_CHARACTERS)


def one_line(text: str) -> str:
    """Return a text on one line, with control characters replaced."""
    return " ".join(text.splitlines()).translate(CONTROL_CHARACTERS)


def exact(path: Path | str) -> str:
    """Return a path as text that still names the file, unless its bytes are not valid UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace").replace(os.sep, "/")


def excerpt(text: str, length: int = MAX_EXCERPT) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text[: 4 * length].split()).translate(CONTROL_CHARACTERS)
    return line if len(line) <= length else line[: length - 1] + "…"


def is_utf8(text: str) -> bool:
    """Return whether UTF-8 can encode a text: half of a pair of surrogates, it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def numbered(number: int, noun: str) -> str:
    """Return a count with its noun: "1 file", "2,000 files", "3 classes"."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def some(names: Iterable[object], limit: int = 3, *, separator: str = ", ") -> str:
    """Return a list of the first few names: "a, b and 3 more"."""
    texts = [str(name) for name in names]
    more = f" and {len(texts) - limit:,} more" if len(texts) > limit else ""
    return separator.join(texts[:limit]) + more


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], rule: str = "---:") -> str:
    """Return a Markdown table; `rule` aligns all columns except the first."""
    rules = ["---", *[rule] * (len(header) - 1)]
    lines = [f"| {' | '.join(cells)} |" for cells in (header, rules, *rows)]
    return "\n".join(lines)
