"""Rows of classes and labels, and the changes that actions make to them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from unitail.errors import UserError
from unitail.wording import some

ASIDE = 0
"""Class id of an item that belongs to none of the classes."""


class Origin(StrEnum):
    """How a label came about, which decides how it is used to estimate the accuracy."""

    CHOSEN = "chosen"
    """Given to an item that the user picked."""
    SUGGESTED = "suggested"
    """Given to an item that the studio put forward because it was doubtful: harder than most."""
    CONFIRMED = "confirmed"
    """The studio's own answer, confirmed for several items at once: easier than most."""
    CHECKED = "checked"
    """Given again after the studio had flagged it as suspicious."""


@dataclass(frozen=True)
class ClassRow:
    """One version of a class."""

    id: int
    name: str
    deleted: bool = False
    version: int = 0


@dataclass(frozen=True)
class LabelRow:
    """One version of an item's label."""

    item: str
    class_id: int | None
    """A class, `ASIDE`, or None if the item has no label."""
    content: str | None = None
    """Hash of the file's content when the item was labelled, if known."""
    version: int = 0
    origin: str = Origin.CHOSEN
    excerpt: str | None = None
    """Short form of a text or row, whose key says nothing to people; None for files."""

    @property
    def readable(self) -> str:
        """The item in words; the key where nothing else is known."""
        return self.excerpt or self.item


Row = ClassRow | LabelRow


@dataclass(frozen=True)
class Change:
    """One row before and after an action."""

    before: Row
    after: Row

    def inverse(self) -> "Change":
        """Return the change that undoes this one."""
        return Change(self.after, self.before)


@dataclass(frozen=True)
class Snapshot:
    """All rows at a revision, or only those that changed after an earlier one."""

    revision: int
    classes: tuple[ClassRow, ...] = ()
    labels: tuple[LabelRow, ...] = ()


@dataclass(frozen=True)
class ActionResult:
    """What an action did."""

    revision: int
    title: str
    items: tuple[str, ...] = field(default=())
    """The items whose labels changed."""
    class_id: int | None = None
    """The class that was created, if any."""


class Conflict(UserError):
    """Somebody else changed the same rows first; nothing was written."""

    remedy = "Look at what they did, then decide again."

    def __init__(self, wrong: str, rows: Sequence[Row]) -> None:
        names = (each.readable if isinstance(each, LabelRow) else each.name for each in rows)
        super().__init__(
            wrong,
            got=f"{some(names)} changed meanwhile",
            allowed="what nobody else has changed since you saw it",
        )
        self.rows = tuple(rows)


class StoreUnavailable(UserError):
    """The label database cannot be read or written; nothing was changed."""

    remedy = "Try again in a moment: earlier labels are kept."


def same_content(one: Row, other: Row) -> bool:
    """Return whether two rows are equal apart from their versions."""
    return {**asdict(one), "version": 0} == {**asdict(other), "version": 0}


def changes_to_text(changes: Iterable[Change]) -> str:
    """Serialise changes for the history."""
    rows = [{"before": asdict(each.before), "after": asdict(each.after)} for each in changes]
    return json.dumps(rows, ensure_ascii=False)


def changes_from_text(text: str) -> list[Change]:
    """Parse the output of `changes_to_text`."""
    return [Change(_row(each["before"]), _row(each["after"])) for each in json.loads(text)]


def _row(fields: Mapping[str, Any]) -> Row:
    return LabelRow(**fields) if "item" in fields else ClassRow(**fields)
