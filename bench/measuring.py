"""Shared helpers of the scripts: timing, files of rows, banks by pattern, and result pages."""

import argparse
import json
import re
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
    """Wait until the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def seconds(work: Callable[[], object], repeats: int, device: torch.device | None = None) -> float:
    """Return the median time of a call, after a warm-up call."""
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
    """Wait for a condition; raise if it does not become true in time."""
    end = time.monotonic() + limit
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {limit:g} s until {what}")
        time.sleep(0.02)


def device_name(device: torch.device) -> str:
    """Return the device's name as in reports."""
    if device.type == "cuda":
        return torch.cuda.get_device_name()
    return f"CPU, {torch.get_num_threads()} threads"


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


def chosen_banks(
    parser: argparse.ArgumentParser, folder: Path, patterns: Sequence[str]
) -> dict[str, FeatureBank]:
    """Open the banks of a folder that match a pattern; exit with a message if none does."""
    paths = named_banks(folder)
    chosen = [name for name in paths if any(bank_matches(name, each) for each in patterns)]
    if not chosen:
        parser.error(f"no bank matches {' '.join(patterns)}")
    return {name: FeatureBank.open(paths[name]) for name in chosen}


def chosen_tables(
    parser: argparse.ArgumentParser, folder: Path, patterns: Sequence[str]
) -> list[BenchTable]:
    """List the tables of the suite "banks" that match a pattern; exit if none does."""
    tables = open_suite(read_suite("banks"), folder).tables
    chosen = [each for each in tables if any(fnmatch(each.name, one) for one in patterns)]
    if not chosen:
        parser.error(f"no bank of the suite matches {' '.join(patterns)}")
    return chosen


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
