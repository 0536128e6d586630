"""What the scripts share: a clock, files of rows, banks by pattern, and the page of results."""

import argparse
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TextIO

import torch

from unitail.banks.bank import FeatureBank, bank_matches, named_banks
from unitail.benchmark.suite_file import read_suite
from unitail.benchmark.suites import BenchTable, open_suite


def wait(device: torch.device) -> None:
    """Wait until the device has done what it was asked to."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def seconds(work: Callable[[], object], repeats: int, device: torch.device | None = None) -> float:
    """Return the median time of a call, after one that does not count."""
    device = device or torch.device("cpu")
    times = []
    for _ in range(1 + repeats):
        wait(device)
        start = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def wait_until(is_so: Callable[[], object], what: str, *, limit: float = 120.0) -> None:
    """Wait for something that others do; end with a message where it does not come."""
    end = time.monotonic() + limit
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {limit:g} s until {what}")
        time.sleep(0.02)


def device_name(device: torch.device) -> str:
    """Name the device as reports do."""
    if device.type == "cuda":
        return torch.cuda.get_device_name()
    return f"CPU, {torch.get_num_threads()} threads"


def read_rows(folder: Path, model: str | None = None) -> list[dict[str, Any]]:
    """Read all rows_*.jsonl of a folder; a line that a stop cut short does not count.

    With the stamp of a `model` (`unitail.learners.fingerprints`), those of other models neither.
    """
    texts = [path.read_text() for path in sorted(folder.glob("rows_*.jsonl"))]
    rows = [json.loads(line) for text in texts for line in _whole(text).splitlines()]
    return [row for row in rows if model is None or row.get("model") == model]


def add_rows(path: Path) -> TextIO:
    """Open a file of rows to add some, after the last whole line."""
    if path.exists():
        path.write_text(_whole(path.read_text()))
    return path.open("a")


def _whole(text: str) -> str:
    return text[: text.rfind("\n") + 1]


def chosen_banks(
    parser: argparse.ArgumentParser, folder: Path, patterns: Sequence[str]
) -> dict[str, FeatureBank]:
    """Open the banks of a folder whose names match a pattern; without any, end with a message."""
    paths = named_banks(folder)
    chosen = [name for name in paths if any(bank_matches(name, each) for each in patterns)]
    if not chosen:
        parser.error(f"no bank matches {' '.join(patterns)}")
    return {name: FeatureBank.open(paths[name]) for name in chosen}


def chosen_tables(
    parser: argparse.ArgumentParser, folder: Path, patterns: Sequence[str]
) -> list[BenchTable]:
    """List the tables of the suite "banks" that match a pattern, or end with a message."""
    tables = open_suite(read_suite("banks"), folder).tables
    chosen = [each for each in tables if any(fnmatch(each.name, one) for one in patterns)]
    if not chosen:
        parser.error(f"no bank of the suite matches {' '.join(patterns)}")
    return chosen


def row(*cells: object) -> str:
    """Write a line of a Markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def command_line(**places: Path) -> str:
    """Write the command that runs, with `places` by name."""
    script = "/".join(("bench", *Path(sys.argv[0]).resolve().parts)).rpartition("/bench/")[2]
    command = shlex.join(["python", f"bench/{script}", *sys.argv[1:]])
    for name, place in places.items():
        command = command.replace(str(place), name)
    return command


class Page:
    """A page of results in Markdown: it grows, row by row, on the screen and in its file."""

    def __init__(self, path: Path, title: str, about: str, **places: Path) -> None:
        """Write the head; the command that it states has `places` by name, BANKS=args.banks."""
        command = command_line(**places)
        self.path = path
        self.blocks = [f"# {title}", f"{about} Written by", f"    {command}"]
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write()

    def text(self, *paragraphs: str) -> None:
        """Add paragraphs, or headings."""
        self.blocks += paragraphs
        self._write()

    def table(self, header: Sequence[object], rows: Iterable[Sequence[object]] = ()) -> None:
        """Begin a table; `row` goes on with it."""
        self.text("\n".join([row(*header), "|---" * len(header) + "|"]))
        for cells in rows:
            self.row(*cells)

    def row(self, *cells: object) -> None:
        """Add a row to the last table, and show it."""
        self.blocks[-1] += "\n" + row(*cells)
        print(row(*cells), flush=True)
        self._write()

    def _write(self) -> None:
        self.path.write_text("\n\n".join(self.blocks) + "\n")
