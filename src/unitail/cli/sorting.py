"""What `unitail predict --sort-into` does and says."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from unitail.cli.console import say
from unitail.cli.predict_screen import MAX_NAMED
from unitail.configuration import choice, require
from unitail.inputs.items import Items
from unitail.wording import numbered, shown, some
from unitail.workflows.answers import Answers
from unitail.workflows.sort_files import (
    SortBy,
    Step,
    check_sorting,
    plan_sorting,
    require_files,
    sort_files,
)

DONE = {SortBy.COPY: "copied", SortBy.LINK: "linked", SortBy.MOVE: "moved"}


@dataclass(frozen=True)
class Sorting:
    """What to do with the files that were answered."""

    target: Path | None
    by: str
    dry_run: bool

    def check(self, inputs: Sequence[Path]) -> None:
        """Refuse what cannot be done, before any work is done."""
        choice(SortBy, self.by, "--sort-by")
        if self.target is not None:
            check_sorting(self.target, inputs)
        require(
            self.target is not None or not self.dry_run,
            "--dry-run",
            got="no --sort-into",
            allowed="together with --sort-into DIR",
        )

    def check_items(self, items: Items) -> None:
        """Refuse items that are not files."""
        if self.target is not None:
            require_files(items)

    def sort(self, answers: Answers, items: Items) -> list[Step]:
        """Sort the files, unless that is only to be listed; return what is done with each."""
        if self.target is None:
            return []
        steps = plan_sorting(answers, items, self.target)
        if not self.dry_run:
            sort_files(steps, SortBy(self.by))
        return steps

    def tell(self, console: Console, steps: Sequence[Step]) -> None:
        """List what would be done, or count what was done."""
        if self.target is None:
            return
        if self.dry_run:
            for step in steps:
                arrow = "is already" if step.is_there else "->"
                say(console, f"{shown(step.source)} {arrow} {shown(step.target)}")
        done = DONE[SortBy(self.by)]
        folders = Counter(step.target.parent.name for step in steps)
        there = sum(step.is_there for step in steps)
        say(
            console,
            f"{numbered(len(steps) - there, 'file')} {'would be ' if self.dry_run else ''}{done}"
            f" into {shown(self.target)}: "
            + some((f"{shown(name)} {n:,}" for name, n in sorted(folders.items())), MAX_NAMED)
            + (f". {numbered(there, 'file')} lay there already." if there else "."),
        )
