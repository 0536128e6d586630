"""Markdown: examples in Python with what they print, and tables of results."""

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)


def examples(page: Path) -> Iterator[tuple[str, str | None]]:
    """Yield each block of Python of a page, with the text that follows it directly."""
    for match in BLOCK.finditer(page.read_text()):
        yield match[1], match[2]


def printed(code: str) -> str:
    """Run a block and return what it prints."""
    out = StringIO()
    with redirect_stdout(out):
        exec(code, {})
    return out.getvalue()


def lines(path: Path) -> list[list[str]]:
    """Read the tables of a page: the cells of each line but rules."""
    rows = [line for line in path.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]


def accuracy(cell: str) -> float:
    """Read the mean of a cell "mean ± half width"."""
    return float(cell.split(" ± ")[0])
