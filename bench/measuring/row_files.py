"""Files of measured rows, which a stopped script continues."""

import json
from pathlib import Path
from typing import Any, TextIO


def read_rows(folder: Path, model: str | None = None) -> list[dict[str, Any]]:
    """Read all rows_*.jsonl of a folder, ignoring lines cut short by a stop.

    With the stamp of a `model` (`unitail.learners.fingerprints`), those of other models neither.
    """
    texts = [path.read_text() for path in sorted(folder.glob("rows_*.jsonl"))]
    rows = [json.loads(line) for text in texts for line in _whole(text).splitlines()]
    return [row for row in rows if model is None or row.get("model") == model]


def add_rows(path: Path) -> TextIO:
    """Open a file of rows for appending after the last complete line."""
    if path.exists():
        path.write_text(_whole(path.read_text()))
    return path.open("a")


def _whole(text: str) -> str:
    return text[: text.rfind("\n") + 1]
