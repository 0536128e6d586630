"""One action on the store, in its transaction."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa

from unitail.errors import InvalidInput
from unitail.studio.changes import (
    ASIDE,
    Change,
    ClassRow,
    Conflict,
    Done,
    LabelRow,
    Row,
    StoreAway,
    changes_to_text,
    same_content,
)
from unitail.studio.schema import ACTIONS, CLASSES, COUNTERS, LABELS

BATCH = 500
"""Rows that are named in one query: databases have limits."""


class Action:
    """What one action sees, and does; nobody else writes until it has ended."""

    def __init__(self, connection: sa.Connection, author: str) -> None:
        self._connection, self._author = connection, author
        counter = sa.update(COUNTERS).where(COUNTERS.c.name == "revision")
        connection.execute(counter.values(value=COUNTERS.c.value + 1))
        self.revision = current_revision(connection)

    # What it sees.

    def classes(self) -> list[ClassRow]:
        """Return the classes that there are."""
        rows = self._connection.execute(sa.select(CLASSES).where(~CLASSES.c.deleted))
        return [ClassRow(**row) for row in rows.mappings()]

    def class_row(self, class_id: int) -> ClassRow:
        """Return a class, or say that it is gone."""
        for row in self.classes():
            if row.id == class_id:
                return row
        raise InvalidInput(
            "the class is not there",
            got=f"class {class_id}",
            allowed="a class of this studio",
            remedy="Somebody may have deleted it: choose another.",
        )

    def class_name(self, class_id: int | None) -> str:
        """Write what a label says."""
        if class_id is None:
            return "label removed"
        return "none of the classes" if class_id == ASIDE else self.class_row(class_id).name

    def require_free(self, name: str, *, but: int | None = None) -> None:
        """Refuse a name that another class has, but for capitals."""
        for row in self.classes():
            if row.name.casefold() == name.casefold() and row.id != but:
                raise InvalidInput(
                    "there is a class of this name",
                    got=repr(row.name),
                    allowed="a name for each class",
                    remedy="Write another name, or merge the two classes.",
                )

    def free_id(self) -> int:
        """Return an id that no class ever had."""
        return 1 + int(self._connection.execute(sa.select(sa.func.max(CLASSES.c.id))).scalar() or 0)

    def labels(self, items: Iterable[str]) -> dict[str, LabelRow]:
        """Return what is said of items now."""
        rows = {item: LabelRow(item, None) for item in items}
        for some in _batches(list(rows)):
            query = sa.select(LABELS).where(LABELS.c.item.in_(some))
            for row in self._connection.execute(query).mappings():
                rows[row["item"]] = LabelRow(**row)
        return rows

    def moved(self, class_id: int, to: int | None) -> list[Change]:
        """Return the changes that give all items of a class to another, or to none."""
        query = sa.select(LABELS).where(LABELS.c.class_id == class_id)
        rows = [LabelRow(**row) for row in self._connection.execute(query).mappings()]
        return [Change(row, replace(row, class_id=to)) for row in rows]

    def find(self, which: sa.ColumnElement[bool], latest: sa.Column[Any]) -> Any:  # noqa: ANN401
        """Return the author's latest action of a kind, as a row of the history."""
        own = ACTIONS.c.author == self._author
        query = sa.select(ACTIONS).where(own, which).order_by(latest.desc()).limit(1)
        return self._connection.execute(query).first()

    # What it does.

    def do(self, changes: Sequence[Change], title: str) -> Done:
        """Make the changes, and remember how to take them back."""
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
        return self._done(changes, title)

    def again(
        self,
        action: Any,  # noqa: ANN401 - a row of the history
        changes: Sequence[Change],
        title: str,
        *,
        undone: int | None,
    ) -> Done:
        """Undo or redo an action, if all is still as it left it."""
        self._require_unchanged(changes)
        self._write(changes)
        this = ACTIONS.c.revision == action.revision
        self._connection.execute(sa.update(ACTIONS).where(this).values(undone=undone))
        return self._done(changes, title)

    def _done(self, changes: Sequence[Change], title: str) -> Done:
        items = (each.after.item for each in changes if isinstance(each.after, LabelRow))
        return Done(self.revision, title, tuple(items))

    def _require_unchanged(self, changes: Sequence[Change]) -> None:
        labels = self.labels(
            each.after.item for each in changes if isinstance(each.after, LabelRow)
        )
        query = self._connection.execute(sa.select(CLASSES)).mappings()
        classes = {row["id"]: ClassRow(**row) for row in query}
        changed: list[Row] = []
        for each in changes:
            known = each.before
            now = labels[known.item] if isinstance(known, LabelRow) else classes[known.id]
            changed += [] if same_content(now, known) else [now]
        if changed:
            raise Conflict("somebody else has changed what this did", changed)
        _require_names_free(changes, [row for row in classes.values() if not row.deleted])

    def _write(self, changes: Sequence[Change]) -> None:
        """Put the rows after the changes in place of those before."""
        for table, kind in ((CLASSES, ClassRow), (LABELS, LabelRow)):
            after = [each.after for each in changes if isinstance(each.after, kind)]
            rows = [{**asdict(row), "version": self.revision} for row in after]
            [key] = [column.name for column in table.primary_key]
            known = self._known(table.c[key], [row[key] for row in rows])
            self._insert(table, [row for row in rows if row[key] not in known])
            self._update(table, key, [row for row in rows if row[key] in known])

    def _known(self, column: sa.Column[Any], keys: Sequence[Any]) -> set[Any]:
        known: set[Any] = set()
        for some in _batches(keys):
            query = sa.select(column).where(column.in_(some))
            known.update(self._connection.execute(query).scalars())
        return known

    def _insert(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(table.insert(), rows)

    def _update(self, table: sa.Table, key: str, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            names = [column.name for column in table.columns if column.name != key]
            values: dict[str, Any] = {name: sa.bindparam(f"new_{name}") for name in names}
            update = sa.update(table).where(table.c[key] == sa.bindparam(f"new_{key}"))
            told = [{f"new_{name}": value for name, value in row.items()} for row in rows]
            self._connection.execute(update.values(**values), told)


def current_revision(connection: sa.Connection) -> int:
    """Return the number of the last action."""
    query = sa.select(COUNTERS.c.value).where(COUNTERS.c.name == "revision")
    revision = connection.execute(query).scalar()
    if revision is None:
        raise StoreAway(
            "the database of the labels is not whole",
            got="no number of its last action",
            allowed="a database as a studio leaves it",
            remedy="Bring it back from a copy, and start the studio again.",
        )
    return int(revision)


def _batches(keys: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(keys), BATCH):
        yield keys[start : start + BATCH]


def _require_names_free(changes: Sequence[Change], classes: Sequence[ClassRow]) -> None:
    """Refuse to bring back a name that another class has by now."""
    names = {row.name: row for row in classes}
    for each in changes:
        if isinstance(each.after, ClassRow) and not each.after.deleted:
            holder = names.get(each.after.name)
            if holder is not None and holder.id != each.after.id:
                raise Conflict(f"there is a class {holder.name!r} again", [holder])
