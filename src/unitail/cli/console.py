"""Messages, progress bars and log lines shared by the commands."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidConfig, choice
from unitail.inputs.items import LabelledItems, ReadOptions
from unitail.progress import OnProgress
from unitail.wording import numbered, some

if TYPE_CHECKING:  # commands without workers do not import engines
    from unitail.engines.rows import JobRows

LOG_SECONDS = 15.0
"""Time between two lines of progress in a log."""
MAX_UNREADABLE = 10
"""Largest number of unreadable files listed on the screen."""
MAX_NAMED = 8
"""Largest number of classes listed on the screen."""


def print_lines(console: Console, *lines: str) -> None:
    """Print lines literally: names in them are never interpreted as markup."""
    for line in lines:
        console.print(line, markup=False, highlight=False)


def print_examples(console: Console, examples: LabelledItems, more: str = "") -> None:
    """Print what was recognised among the examples, and what was skipped; `more` ends the line."""
    classes = examples.classes
    print_lines(
        console,
        f"{examples.modality}: {numbered(len(examples), 'example')} of"
        f" {numbered(len(classes), 'class')} ({some(classes, MAX_NAMED)}){more}.",
    )
    if examples.content_column is not None:
        print_lines(console, f"Content is in the column {examples.content_column!r}.")
    print_lines(console, *(f"Note: {note}." for note in examples.guesses))
    print_lines(console, *(f"Skipped among the examples: {note}." for note in examples.skipped))


def print_encoder(console: Console, name: str, num_cached: int, notes: Sequence[str]) -> None:
    """Print which encoder was used, and the notes on the data."""
    cached = f"; {num_cached:,} from the cache" if num_cached else ""
    print_lines(console, f"Encoder: {name}{cached}.", *(f"{note}." for note in notes))


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


def read_options(
    label_column: str,
    content_column: str | None,
    modality: str | None,
    columns: Sequence[str] | None = None,
) -> ReadOptions:
    """Parse the options for reading folders and tables; `columns` are NAME=KIND."""
    chosen = None if modality is None else choice(Modality, modality, "--modality")
    kinds: dict[str, str] = {}
    for text in columns or []:
        name, _, kind = text.rpartition("=")
        if not (name and kind):
            raise InvalidConfig(
                "--column does not name a column and its kind",
                got=repr(text),
                allowed="NAME=KIND",
                remedy="Write it so: --column price=table.",
            )
        kinds[name] = kind
    if kinds and content_column is not None:
        raise InvalidConfig(
            "--content-column names the only column that is used",
            got=f"--content-column {content_column} and --column {(columns or [''])[0]}",
            allowed="one of them",
            remedy="Leave out --content-column to use several columns.",
        )
    return ReadOptions(label_column, content_column, chosen, kinds)


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
    with bars(what, total=total, quiet=quiet) as [on_progress]:
        yield on_progress


@contextmanager
def bars(
    first: str, *later: str, total: int | None = None, quiet: bool = False
) -> Iterator[list[OnProgress]]:
    """Show a progress bar on standard error, and below it others as soon as their work begins.

    A log always has a final line for the first; for the others only if they take long.
    """
    console = Console(stderr=True, quiet=quiet)
    if not console.is_terminal:
        lines, after = LogLines(first), {name: list[LogLines]() for name in later}

        def log_later(name: str, done: int, total: int) -> None:
            after[name].extend([] if after[name] else [LogLines(name)])  # its clock starts now
            after[name][0](done, total)

        callbacks: list[OnProgress] = [lines, *(partial(log_later, name) for name in later)]
        yield [_ignore] * len(callbacks) if quiet else callbacks
        lines.write()
        for [begun] in filter(None, after.values()):
            if begun.has_written:
                begun.write()
        return
    with progress_bar(console) as progress:
        tasks = [progress.add_task(first, total=total)]
        tasks += [progress.add_task(name, total=None, visible=False) for name in later]

        def show(task: TaskID, done: int, total: int) -> None:
            progress.update(task, completed=done, total=total, visible=True)

        yield [partial(show, task) for task in tasks]


def _ignore(done: int, total: int) -> None:
    """Show no progress."""
