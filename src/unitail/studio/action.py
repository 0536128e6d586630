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
    Row,
    StoreUnavailable,
    changes_to_text,
    same_content,
)

BATCH = 500
"""Number of rows named in one query: databases limit it."""


class Action:
    """What one action reads and writes; other writers wait until it has ended."""

    def __init__(self, connection: sa.Connection, author: str) -> None:
        self._connection, self._author = connection, author
        counter = sa.update(COUNTERS).where(COUNTERS.c.name == "revision")
        connection.execute(counter.values(value=COUNTERS.c.value + 1))
        self.revision = current_revision(connection)

    # Reading.

    def classes(self) -> list[ClassRow]:
        """Return all classes that are not deleted."""
        rows = self._connection.execute(sa.select(CLASSES).where(~CLASSES.c.deleted))
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
        return 1 + int(self._connection.execute(sa.select(sa.func.max(CLASSES.c.id))).scalar() or 0)

    def labels(self, items: Iterable[str]) -> dict[str, LabelRow]:
        """Return the current label of each item; an item without one gets an empty row."""
        rows = {item: LabelRow(item, None) for item in items}
        for batch in _batches(list(rows)):
            query = sa.select(LABELS).where(LABELS.c.item.in_(batch))
            for row in self._connection.execute(query).mappings():
                rows[row["item"]] = LabelRow(**row)
        return rows

    def labels_of(self, class_id: int, *, after: int = -1) -> list[LabelRow]:
        """Return the labels of a class, or only those that changed after a revision."""
        which = (LABELS.c.class_id == class_id) & (LABELS.c.version > after)
        query = sa.select(LABELS).where(which).order_by(LABELS.c.item)
        return [LabelRow(**row) for row in self._connection.execute(query).mappings()]

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
        return bool(self._author) and self._connection.execute(query).scalar() == self._author

    def find(self, which: sa.ColumnElement[bool], latest: sa.Column[Any]) -> Any:  # noqa: ANN401
        """Return the author's latest action that meets a condition, as a row of the history."""
        is_own = ACTIONS.c.author == self._author
        query = sa.select(ACTIONS).where(is_own, which).order_by(latest.desc()).limit(1)
        return self._connection.execute(query).first()

    # Writing.

    def apply(self, changes: Sequence[Change], title: str) -> ActionResult:
        """Write the changes, and record them in the history so that they can be undone."""
        self._write(changes)
        self._connection.execute(
            ACTIONS.insert().values(
                revision=self.revision,
                title=title,
                changes=changes_to_text(changes),
                author=self._author,
                seconds=time.time(),
                undone=None,
            )
        )
        return self._result(changes, title)

    def replay(
        self,
        action: Any,  # noqa: ANN401 - a row of the history
        changes: Sequence[Change],
        title: str,
        *,
        undone: int | None,
    ) -> ActionResult:
        """Undo or redo an action, if its rows have not changed since."""
        self._require_unchanged(changes)
        self._write(changes)
        this = ACTIONS.c.revision == action.revision
        self._connection.execute(sa.update(ACTIONS).where(this).values(undone=undone))
        return self._result(changes, title)

    def _result(self, changes: Sequence[Change], title: str) -> ActionResult:
        items = (each.after.item for each in changes if isinstance(each.after, LabelRow))
        return ActionResult(self.revision, title, tuple(items))

    def _require_unchanged(self, changes: Sequence[Change]) -> None:
        labels = self.labels(
            each.after.item for each in changes if isinstance(each.after, LabelRow)
        )
        query = self._connection.execute(sa.select(CLASSES)).mappings()
        classes = {row["id"]: ClassRow(**row) for row in query}
        changed: list[Row] = []
        for each in changes:
            before = each.before
            now = labels[before.item] if isinstance(before, LabelRow) else classes[before.id]
            changed += [] if same_content(now, before) else [now]
        if changed:
            raise Conflict("somebody else has since changed the same items or classes", changed)
        after = {row.id: row for row in (*classes.values(), *_classes_after(changes))}
        _require_names_free(changes, [row for row in classes.values() if not row.deleted])
        self._require_labels_kept(changes, {row.id for row in after.values() if row.deleted})

    def _require_labels_kept(self, changes: Sequence[Change], deleted: set[int]) -> None:
        """Raise if labels of deleted classes would remain: others' of a class that goes, or ours.

        Labels that the changes themselves move are no obstacle.
        """
        rows = [each.after for each in changes if isinstance(each.after, LabelRow)]
        dangling = [row for row in rows if row.class_id in deleted]
        if dangling:
            raise Conflict("somebody else has since deleted the class of these items", dangling)
        moved = {row.item for row in rows}
        for row in _classes_after(changes):
            labels = self.labels_of(row.id) if row.deleted else []
            left = [each for each in labels if each.item not in moved]
            if left:
                raise Conflict(f"there are more labels of {row.name} by now", left)

    def _write(self, changes: Sequence[Change]) -> None:
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
            existing.update(self._connection.execute(query).scalars())
        return existing

    def _insert(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(table.insert(), rows)

    def _update(self, table: sa.Table, key: str, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            names = [column.name for column in table.columns if column.name != key]
            values: dict[str, Any] = {name: sa.bindparam(f"new_{name}") for name in names}
            update = sa.update(table).where(table.c[key] == sa.bindparam(f"new_{key}"))
            parameters = [{f"new_{name}": value for name, value in row.items()} for row in rows]
            self._connection.execute(update.values(**values), parameters)


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


def _classes_after(changes: Sequence[Change]) -> list[ClassRow]:
    return [each.after for each in changes if isinstance(each.after, ClassRow)]


def _require_names_free(changes: Sequence[Change], classes: Sequence[ClassRow]) -> None:
    """Raise if a class would get a name back that another class has taken meanwhile."""
    names = {row.name: row for row in classes}
    for row in _classes_after(changes):
        if not row.deleted:
            holder = names.get(row.name)
            if holder is not None and holder.id != row.id:
                raise Conflict(f"there is another class {holder.name!r} by now", [holder])
