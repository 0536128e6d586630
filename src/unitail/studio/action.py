"""One action on the store, inside its transaction."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa

from unitail.errors import InvalidInput
from unitail.studio.schema import ACTIONS, CLASSES, COUNTERS, LABELS
from unitail.studio.stored_rows import (
    ASIDE,
    ActionResult,
    Change,
    ClassRow,
    Conflict,
    LabelRow,
    StoreUnavailable,
    changes_to_text,
)

BATCH = 500
"""Number of rows named in one query: databases limit it."""


class Action:
    """What one action reads and writes; other writers wait until it has ended."""

    def __init__(self, connection: sa.Connection, author: str) -> None:
        self.connection, self.author = connection, author
        counter = sa.update(COUNTERS).where(COUNTERS.c.name == "revision")
        connection.execute(counter.values(value=COUNTERS.c.value + 1))
        self.revision = current_revision(connection)

    # Reading.

    def classes(self) -> list[ClassRow]:
        """Return all classes that are not deleted."""
        rows = self.connection.execute(sa.select(CLASSES).where(~CLASSES.c.deleted))
        return [ClassRow(**row) for row in rows.mappings()]

    def class_row(self, class_id: int) -> ClassRow:
        """Return a class, or raise if it does not exist."""
        for row in self.classes():
            if row.id == class_id:
                return row
        raise InvalidInput(
            "the class does not exist",
            got=f"class {class_id}",
            allowed="a class of this studio",
            remedy="It may have been deleted: choose another.",
        )

    def class_name(self, class_id: int | None) -> str:
        """Return a label in words: the name of its class, or that it has none."""
        if class_id is None:
            return "label removed"
        return "none of the classes" if class_id == ASIDE else self.class_row(class_id).name

    def require_free(self, name: str, *, except_id: int | None = None) -> None:
        """Raise if another class has this name, upper and lower case being the same."""
        for row in self.classes():
            if row.name.casefold() == name.casefold() and row.id != except_id:
                raise InvalidInput(
                    "there is already a class of this name",
                    got=repr(row.name),
                    allowed="a different name for each class",
                    remedy="Choose another name, or merge the two classes.",
                )

    def free_id(self) -> int:
        """Return an id that no class has ever had."""
        return 1 + int(self.connection.execute(sa.select(sa.func.max(CLASSES.c.id))).scalar() or 0)

    def labels(self, items: Iterable[str]) -> dict[str, LabelRow]:
        """Return the current label of each item; an item without one gets an empty row."""
        rows = {item: LabelRow(item, None) for item in items}
        for batch in _batches(list(rows)):
            query = sa.select(LABELS).where(LABELS.c.item.in_(batch))
            for row in self.connection.execute(query).mappings():
                rows[row["item"]] = LabelRow(**row)
        return rows

    def labels_of(self, class_id: int, *, after: int = -1) -> list[LabelRow]:
        """Return the labels of a class, or only those that changed after a revision."""
        which = (LABELS.c.class_id == class_id) & (LABELS.c.version > after)
        query = sa.select(LABELS).where(which).order_by(LABELS.c.item)
        return [LabelRow(**row) for row in self.connection.execute(query).mappings()]

    def moved(self, class_id: int, to: int | None) -> list[Change]:
        """Return the changes that move all items of a class to another, or remove their labels."""
        return [Change(row, replace(row, class_id=to)) for row in self.labels_of(class_id)]

    def require_class_seen(self, row: ClassRow, version: int | None) -> None:
        """Raise if somebody else changed a class after the version that the author saw."""
        if version is not None and row.version > version and not self._is_own(row.version):
            raise Conflict("somebody else changed this class meanwhile", [row])

    def require_labels_seen(self, row: ClassRow, revision: int | None) -> None:
        """Raise if somebody else labelled items as a class after the revision the author saw."""
        if revision is None:
            return
        newer = self.labels_of(row.id, after=revision)
        own = {each for each in {label.version for label in newer} if self._is_own(each)}
        others = [label for label in newer if label.version not in own]
        if others:
            raise Conflict(f"somebody else labelled items as {row.name} meanwhile", others)

    def _is_own(self, revision: int) -> bool:
        """Return whether the author wrote this revision; nobody knows who undid or redid."""
        query = sa.select(ACTIONS.c.author).where(ACTIONS.c.revision == revision)
        return bool(self.author) and self.connection.execute(query).scalar() == self.author

    # Writing.

    def apply(self, changes: Sequence[Change], title: str) -> ActionResult:
        """Write the changes, and record them in the history so that they can be undone."""
        self.write(changes)
        self.connection.execute(
            ACTIONS.insert().values(
                revision=self.revision,
                title=title,
                changes=changes_to_text(changes),
                author=self.author,
                seconds=time.time(),
                undone=None,
            )
        )
        return self.result(changes, title)

    def result(self, changes: Sequence[Change], title: str) -> ActionResult:
        """Return what these changes did."""
        items = (each.after.item for each in changes if isinstance(each.after, LabelRow))
        return ActionResult(self.revision, title, tuple(items))

    def write(self, changes: Sequence[Change]) -> None:
        """Insert or update the rows, as they are after the changes."""
        for table, kind in ((CLASSES, ClassRow), (LABELS, LabelRow)):
            after = [each.after for each in changes if isinstance(each.after, kind)]
            rows = [{**asdict(row), "version": self.revision} for row in after]
            [key] = [column.name for column in table.primary_key]
            existing = self._existing_keys(table.c[key], [row[key] for row in rows])
            self._insert(table, [row for row in rows if row[key] not in existing])
            self._update(table, key, [row for row in rows if row[key] in existing])

    def _existing_keys(self, column: sa.Column[Any], keys: Sequence[Any]) -> set[Any]:
        existing: set[Any] = set()
        for batch in _batches(keys):
            query = sa.select(column).where(column.in_(batch))
            existing.update(self.connection.execute(query).scalars())
        return existing

    def _insert(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            self.connection.execute(table.insert(), rows)

    def _update(self, table: sa.Table, key: str, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            names = [column.name for column in table.columns if column.name != key]
            values: dict[str, Any] = {name: sa.bindparam(f"new_{name}") for name in names}
            update = sa.update(table).where(table.c[key] == sa.bindparam(f"new_{key}"))
            parameters = [{f"new_{name}": value for name, value in row.items()} for row in rows]
            self.connection.execute(update.values(**values), parameters)


def current_revision(connection: sa.Connection) -> int:
    """Return the number of the last action."""
    query = sa.select(COUNTERS.c.value).where(COUNTERS.c.name == "revision")
    revision = connection.execute(query).scalar()
    if revision is None:
        raise StoreUnavailable(
            "the label database is incomplete",
            got="no number of its last action",
            allowed="a complete database of a studio",
            remedy="Restore it from a copy, and restart the studio.",
        )
    return int(revision)


def _batches(keys: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(keys), BATCH):
        yield keys[start : start + BATCH]
