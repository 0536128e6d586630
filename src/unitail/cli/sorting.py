"""The options of `unitail predict` for sorting the answered files into folders."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from unitail.cli.console import MAX_NAMED, print_lines
from unitail.errors import InvalidConfig, choice
from unitail.inputs.items import Items
from unitail.wording import numbered, shown, some
from unitail.workflows.answers import Answers
from unitail.workflows.sort_files import (
    SortBy,
    Step,
    plan_sorting,
    remove_outdated,
    sort_files,
    where_moved,
)

DONE = {SortBy.COPY: "copied", SortBy.LINK: "linked", SortBy.MOVE: "moved"}


@dataclass(frozen=True)
class Sorting:
    """Options for sorting the answered files into folders."""

    target: Path
    by: SortBy
    dry_run: bool

    @classmethod
    def of(cls, target: Path | None, by: str, *, dry_run: bool) -> "Sorting | None":
        """Parse the options; None if no file is to be sorted."""
        how = choice(SortBy, by, "--sort-by")
        if target is not None:
            return cls(target, how, dry_run)
        if dry_run:
            raise InvalidConfig(
                "--dry-run lists what --sort-into would do",
                got="no --sort-into",
                allowed="together with --sort-into DIR",
                remedy="Add --sort-into DIR, or leave out --dry-run.",
            )
        return None

    def sort(self, answers: Answers, items: Items) -> tuple[list[Step], list[Step], Items]:
        """Sort the files, unless this is a dry run.

        Returns the steps done, the steps that failed because their file had vanished, and the items
        with their new paths.
        """
        steps = plan_sorting(answers, items, self.target)
        if self.dry_run:
            return steps, [], items
        vanished = sort_files(steps, self.by)
        failed = set(vanished)
        steps = [step for step in steps if step not in failed]
        if self.by is SortBy.MOVE:
            return steps, vanished, where_moved(items, steps)
        remove_outdated(steps, self.target)
        return steps, vanished, items

    def show(self, console: Console, steps: Sequence[Step]) -> None:
        """Print the planned steps of a dry run, or the number of files that were sorted."""
        if self.dry_run:
            for step in steps:
                arrow = "exists already as" if step.is_there else "->"
                print_lines(console, f"{shown(step.source)} {arrow} {shown(step.target)}")
        folders = Counter(step.target.parent.name for step in steps)
        existing = sum(step.is_there for step in steps)
        were = "was" if existing == 1 else "were"
        print_lines(
            console,
            f"{numbered(len(steps) - existing, 'file')} {'would be ' if self.dry_run else ''}"
            f"{DONE[self.by]} into {shown(self.target)}: "
            + some((f"{shown(name)} ({n:,})" for name, n in sorted(folders.items())), MAX_NAMED)
            + (f". {numbered(existing, 'file')} {were} there already." if existing else "."),
        )
