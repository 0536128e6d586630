"""What a studio knows of classes and labels, and what an action does to them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from unitail.errors import UserError

ASIDE = 0
"""Stands for a class where an item belongs to none of them."""


@dataclass(frozen=True)
class ClassRow:
    """A class, as it was in its version."""

    id: int
    name: str
    deleted: bool = False
    version: int = 0


@dataclass(frozen=True)
class LabelRow:
    """What somebody said an item is, as it was in its version."""

    item: str
    class_id: int | None
    """A class, `ASIDE`, or None if nothing is said."""
    content: str | None = None
    """What the item held when it was labelled."""
    version: int = 0


Row = ClassRow | LabelRow


@dataclass(frozen=True)
class Change:
    """One row before and after an action."""

    before: Row
    after: Row

    def inverse(self) -> "Change":
        """Return what takes it back."""
        return Change(self.after, self.before)


@dataclass(frozen=True)
class Snapshot:
    """All rows up to a revision, or those that changed after another one."""

    revision: int
    classes: tuple[ClassRow, ...] = ()
    labels: tuple[LabelRow, ...] = ()


@dataclass(frozen=True)
class Done:
    """What came of an action."""

    revision: int
    title: str
    items: tuple[str, ...] = field(default=())
    """The items whose labels changed."""
    class_id: int | None = None
    """The class that was made."""


class Conflict(UserError):
    """Somebody else changed what was to be changed; nothing was done."""

    remedy = "Look at what they did, then decide again."

    def __init__(self, wrong: str, rows: Sequence[Row]) -> None:
        super().__init__(
            wrong,
            got=f"{len(rows)} changed meanwhile",
            allowed="what nobody else has changed since you saw it",
        )
        self.rows = tuple(rows)


class StoreAway(UserError):
    """The database of the labels does not answer, or takes nothing; nothing was done."""

    remedy = "Try again in a moment: what was labelled before is kept."


def same_content(one: Row, other: Row) -> bool:
    """Tell whether two rows say the same, whenever they were written."""
    return {**asdict(one), "version": 0} == {**asdict(other), "version": 0}


def changes_to_text(changes: Iterable[Change]) -> str:
    """Write changes for the history."""
    rows = [{"before": asdict(each.before), "after": asdict(each.after)} for each in changes]
    return json.dumps(rows, ensure_ascii=False)


def changes_from_text(text: str) -> list[Change]:
    """Read what `changes_to_text` wrote."""
    return [Change(_row(each["before"]), _row(each["after"])) for each in json.loads(text)]


def _row(fields: Mapping[str, Any]) -> Row:
    return LabelRow(**fields) if "item" in fields else ClassRow(**fields)
