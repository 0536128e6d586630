"""Progress bars that all commands share."""

from collections.abc import Callable
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Done = TypeVar("Done")


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


def under_bar(
    what: str, total: int | None, work: Callable[..., Done], *, shown: bool = True
) -> Done:
    """Do some work under a bar; its `on_progress` is told how much is done, and of how much."""
    with progress_bar(Console(stderr=True, quiet=not shown)) as progress:
        bar = progress.add_task(what, total=total)

        def show(done: int, of: int | None = total) -> None:
            progress.update(bar, completed=done, total=of)

        return work(on_progress=show)
