"""What several commands say and show."""

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

if TYPE_CHECKING:  # commands without workers do without engines
    from unitail.engines.rows import JobRows

LOG_SECONDS = 15.0
"""Between two lines that say how far work is, in a log."""
MAX_UNREADABLE = 10
"""Unreadable files on the screen."""


def say(console: Console, *lines: str) -> None:
    """Print lines in which names are never read as markup."""
    for line in lines:
        console.print(line, markup=False, highlight=False)


def say_trouble(cache: FeatureCache | None) -> None:
    """Say on the error stream why the cache was not used, if so."""
    if cache is not None and cache.trouble:
        typer.echo(f"unitail: {cache.trouble}", err=True)


def say_unreadable(unreadable: Sequence[str], *, all_in: str, number: int | None = None) -> None:
    """List what could not be read, on the error stream, and leave with 1 if there is any.

    `number` is how many there are, if not all are given.
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


def tell_rows(rows: "JobRows") -> None:
    """Say what was found."""
    number = rows.stream.total
    count = "rows as they come" if number is None else numbered(number, "row")
    where = f", in the column {rows.reading.column!r}" if rows.reading.column else ""
    typer.echo(f"{rows.reading.modality}: {count}{where}.")
    for note in rows.notes:
        typer.echo(f"Noted: {note}.")


def column_kinds(columns: Sequence[str]) -> dict[str, str]:
    """Read what `--column NAME=KIND` says."""
    pairs = [each.rpartition("=") for each in columns]
    for given, (name, _, kind) in zip(columns, pairs, strict=True):
        require(bool(name and kind), "--column", got=repr(given), allowed="NAME=KIND")
    return {name: kind for name, _, kind in pairs}


def progress_bar(console: Console) -> Progress:
    """Return a bar with a description, a count, the time gone and the time left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


class LogLines:
    """Say now and then how far work is, where there is no terminal to draw a bar on."""

    def __init__(self, what: str) -> None:
        self._what, self._start = what, time.monotonic()
        self._last = self._start
        self.done: tuple[int, int] | None = None
        self.has_spoken = False

    def __call__(self, done: int, of: int) -> None:
        """Take note, and say it if it is time."""
        self.done = (done, of)
        if time.monotonic() - self._last >= LOG_SECONDS:
            self._last, self.has_spoken = time.monotonic(), True
            self.say()

    def say(self) -> None:
        """Say how far it is."""
        if self.done is not None:
            spent = time.monotonic() - self._start
            typer.echo(f"{self._what} {self.done[0]}/{self.done[1]}, {spent:.0f} s", err=True)


@contextmanager
def bar(what: str, total: int | None = None, *, quiet: bool = False) -> Iterator[OnProgress]:
    """Show a bar on the error stream as long as some work tells how far it is; in a log, lines."""
    with bars(what, "", total=total, quiet=quiet) as (on_progress, _):
        yield on_progress


@contextmanager
def bars(
    first: str, second: str, total: int | None = None, *, quiet: bool = False
) -> Iterator[tuple[OnProgress, OnProgress]]:
    """Show a bar of some work, and below it one of what comes after, when it begins.

    In a log there is a last line of the first; of the second only if it takes long.
    """
    console = Console(stderr=True, quiet=quiet)
    if not console.is_terminal:
        lines, after = LogLines(first), list[LogLines]()

        def tell_after(done: int, of: int) -> None:
            after.extend([] if after else [LogLines(second)])  # its time begins now
            after[0](done, of)

        yield (_nobody, _nobody) if quiet else (lines, tell_after)
        lines.say()
        if after and after[0].has_spoken:
            after[0].say()
        return
    with progress_bar(console) as progress:
        task = progress.add_task(first, total=total)
        later = progress.add_task(second, total=None, visible=False)
        yield (
            lambda done, of: progress.update(task, completed=done, total=of),
            lambda done, of: progress.update(later, completed=done, total=of, visible=True),
        )


def _nobody(done: int, of: int) -> None:
    """Tell nobody."""
