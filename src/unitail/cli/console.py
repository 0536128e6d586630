"""Messages, progress bars and log lines shared by the commands."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from unitail.encoders.cache import FeatureCache
from unitail.errors import require
from unitail.progress import OnProgress
from unitail.wording import numbered

if TYPE_CHECKING:  # commands without workers do not import engines
    from unitail.engines.rows import JobRows

LOG_SECONDS = 15.0
"""Time between two lines of progress in a log."""
MAX_UNREADABLE = 10
"""Largest number of unreadable files listed on the screen."""


def print_lines(console: Console, *lines: str) -> None:
    """Print lines literally: names in them are never interpreted as markup."""
    for line in lines:
        console.print(line, markup=False, highlight=False)


def print_cache_trouble(cache: FeatureCache | None) -> None:
    """Print on standard error why the cache could not be used, if so."""
    if cache is not None and cache.trouble:
        typer.echo(f"unitail: {cache.trouble}", err=True)


def report_unreadable(unreadable: Sequence[str], *, all_in: str, number: int | None = None) -> None:
    """List unreadable items on standard error, and exit with 1 if there are any.

    `number` is their total if `unreadable` names only some of them.
    """
    number = len(unreadable) if number is None else number
    if not number:
        return
    were = "was" if number == 1 else "were"
    typer.echo(f"unitail: {number:,} could not be read and {were} skipped:", err=True)
    for line in unreadable[:MAX_UNREADABLE]:
        typer.echo(f"  {line}", err=True)
    if number > MAX_UNREADABLE:
        typer.echo(f"  and {number - MAX_UNREADABLE:,} more; {all_in}.", err=True)
    raise typer.Exit(1)


def print_rows(rows: "JobRows") -> None:
    """Print the kind and number of the rows of a job, and the notes on them."""
    number = rows.stream.total
    count = "a stream of rows" if number is None else numbered(number, "row")
    where = f", in the column {rows.reading.column!r}" if rows.reading.column else ""
    typer.echo(f"{rows.reading.modality}: {count}{where}.")
    for note in rows.notes:
        typer.echo(f"Note: {note}.")


def column_kinds(columns: Sequence[str]) -> dict[str, str]:
    """Parse the values of `--column NAME=KIND`."""
    pairs = [each.rpartition("=") for each in columns]
    for text, (name, _, kind) in zip(columns, pairs, strict=True):
        require(bool(name and kind), "--column", got=repr(text), allowed="NAME=KIND")
    return {name: kind for name, _, kind in pairs}


def progress_bar(console: Console) -> Progress:
    """Return a bar with a description, a count, the elapsed time and the time remaining."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


class LogLines:
    """Progress as occasional log lines, for output that is not a terminal."""

    def __init__(self, what: str) -> None:
        self._what, self._start = what, time.monotonic()
        self._last = self._start
        self.done: tuple[int, int] | None = None
        self.has_written = False

    def __call__(self, done: int, total: int) -> None:
        """Record the progress, and write a line if the last one is old enough."""
        self.done = (done, total)
        if time.monotonic() - self._last >= LOG_SECONDS:
            self._last, self.has_written = time.monotonic(), True
            self.write()

    def write(self) -> None:
        """Write a line with the current progress."""
        if self.done is not None:
            seconds = time.monotonic() - self._start
            typer.echo(f"{self._what} {self.done[0]}/{self.done[1]}, {seconds:.0f} s", err=True)


@contextmanager
def bar(what: str, total: int | None = None, *, quiet: bool = False) -> Iterator[OnProgress]:
    """Show a progress bar on standard error, or log lines if that is not a terminal."""
    with bars(what, "", total=total, quiet=quiet) as (on_progress, _):
        yield on_progress


@contextmanager
def bars(
    first: str, second: str, total: int | None = None, *, quiet: bool = False
) -> Iterator[tuple[OnProgress, OnProgress]]:
    """Show a progress bar, and below it a second one as soon as its work begins.

    A log always has a final line for the first; for the second only if it takes long.
    """
    console = Console(stderr=True, quiet=quiet)
    if not console.is_terminal:
        lines, after = LogLines(first), list[LogLines]()

        def log_after(done: int, total: int) -> None:
            after.extend([] if after else [LogLines(second)])  # its clock starts now
            after[0](done, total)

        yield (_ignore, _ignore) if quiet else (lines, log_after)
        lines.write()
        if after and after[0].has_written:
            after[0].write()
        return
    with progress_bar(console) as progress:
        task = progress.add_task(first, total=total)
        later = progress.add_task(second, total=None, visible=False)
        yield (
            lambda done, total: progress.update(task, completed=done, total=total),
            lambda done, total: progress.update(later, completed=done, total=total, visible=True),
        )


def _ignore(done: int, total: int) -> None:
    """Show no progress."""
