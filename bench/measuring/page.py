"""Pages of results, with the command that wrote them."""

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path


def row(*cells: object) -> str:
    """Write a line of a Markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def command_line(**places: Path) -> str:
    """Return the command of this process, with `places` replaced by their names."""
    script = "/".join(("bench", *Path(sys.argv[0]).resolve().parts)).rpartition("/bench/")[2]
    command = shlex.join(["python", f"bench/{script}", *sys.argv[1:]])
    for name, place in places.items():
        # The path alone: its name may also be a part of an option's, or of another path.
        command = re.sub(rf"(?<![\w./-]){re.escape(str(place))}(?![\w.-])", name, command)
    return command


class Page:
    """A Markdown page of results that is printed and written row by row."""

    def __init__(self, path: Path, title: str, about: str, **places: Path) -> None:
        """Write the header; the command in it shows `places` by name, as BANKS=args.banks."""
        command = command_line(**places)
        self.path = path
        self.blocks = [f"# {title}", f"{about} Written by", f"    {command}"]
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write()

    def text(self, *paragraphs: str) -> None:
        """Add paragraphs or headings."""
        self.blocks += paragraphs
        self._write()

    def table(self, header: Sequence[object], rows: Iterable[Sequence[object]] = ()) -> None:
        """Begin a table; `row` adds to it."""
        self.text("\n".join([row(*header), "|---" * len(header) + "|"]))
        for cells in rows:
            self.row(*cells)

    def row(self, *cells: object) -> None:
        """Add a row to the last table, and print it."""
        self.blocks[-1] += "\n" + row(*cells)
        print(row(*cells), flush=True)
        self._write()

    def _write(self) -> None:
        self.path.write_text("\n\n".join(self.blocks) + "\n")
