"""Labels and classes that survive any crash: every action is one transaction, and can be undone.

An action states which version of each row its author saw. If another author has changed one of them
since, nothing is written, and `Conflict` carries the newer rows. Writers take turns: an action
first increments the revision, so other writers wait for the lock on that row.
"""

import json
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from unitail.errors import InvalidInput
from unitail.studio import history
from unitail.studio.action import Action, current_revision
from unitail.studio.history import CannotUndo
from unitail.studio.schema import (
    ACTIONS,
    CLASSES,
    COUNTERS,
    LABELS,
    SETTINGS,
    WRITES,
    damage,
    damaged,
    file_behind,
    open_database,
)
from unitail.studio.stored_rows import (
    ActionResult,
    Change,
    ClassRow,
    Conflict,
    LabelRow,
    Origin,
    Row,
    Snapshot,
    StoreUnavailable,
    changes_from_text,
    changes_to_text,
)
from unitail.wording import CONTROL_CHARACTERS, numbered, shown
from unitail.wording import excerpt as shortened

MAX_NAME = 100
"""Longest class name, in characters."""
MAX_CLASSES = 1000

DIRECTIONS = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
"""Kinds of invisible characters that turn the direction of all text around a name."""
NO_EXCERPTS: Mapping[str, str | None] = {}
Seen = Mapping[str, int]
"""The version of each item's label that the author of an action saw; 0 if there was no label."""


@dataclass(frozen=True)
class SeenClass:
    """What the author of an action saw of a class; None where it is not known."""

    version: int | None = None
    """Version of the class: its name."""
    revision: int | None = None
    """Revision whose labels of this class were seen."""


UNKNOWN = SeenClass()


class Store:
    """The classes, labels and history of a project."""

    def __init__(self, url: str) -> None:
        self._engine = open_database(url)
        self._writer = self._engine.execution_options(**{WRITES: True})
        self._file = file_behind(self._engine)
        self._opened = _identity(self._file)

    def close(self) -> None:
        """Close the connections to the database."""
        self._engine.dispose()

    # Reading.

    def revision(self) -> int:
        """Return the number of the last action."""
        with self._reading() as connection:
            return current_revision(connection)

    def since(self, revision: int = -1) -> Snapshot:
        """Return all rows that changed after a revision, deleted classes and labels included."""
        with self._reading() as connection:
            now = current_revision(connection)
            classes = connection.execute(_newer(CLASSES, revision).order_by(CLASSES.c.id))
            labels = connection.execute(_newer(LABELS, revision).order_by(LABELS.c.item))
            return Snapshot(
                now,
                tuple(ClassRow(**row) for row in classes.mappings()),
                tuple(LabelRow(**row) for row in labels.mappings()),
            )

    def settings(self) -> dict[str, Any]:
        """Return the stored settings by name; empty if there are none yet."""
        with self._reading() as connection:
            rows = connection.execute(sa.select(SETTINGS))
            return {row.name: json.loads(row.value) for row in rows}

    def save_settings(self, settings: Mapping[str, Any]) -> None:
        """Store settings, and keep all others; values must be serialisable as JSON."""
        self._require_file()
        rows = [{"name": name, "value": json.dumps(value)} for name, value in settings.items()]
        with self._translated_errors(), self._writer.begin() as connection:
            # Two who open a new project at once take turns, as writers of actions do.
            connection.execute(sa.update(COUNTERS).values(value=COUNTERS.c.value))
            connection.execute(sa.delete(SETTINGS).where(SETTINGS.c.name.in_(list(settings))))
            connection.execute(SETTINGS.insert(), rows)

    def rename_items(self, keys: Mapping[str, str]) -> None:
        """Give items other keys, in labels and history; nothing changes for users."""

        def renamed(row: Row) -> Row:
            if isinstance(row, ClassRow):
                return row
            return replace(row, item=keys.get(row.item, row.item))

        with self._translated_errors(), self._writer.begin() as connection:
            for old, new in keys.items():
                this = LABELS.c.item == old
                connection.execute(sa.update(LABELS).where(this).values(item=new))
            history = connection.execute(sa.select(ACTIONS.c.revision, ACTIONS.c.changes)).all()
            for revision, text in history:
                changes = [
                    Change(renamed(each.before), renamed(each.after))
                    for each in changes_from_text(text)
                ]
                this = ACTIONS.c.revision == revision
                new_text = changes_to_text(changes)
                connection.execute(sa.update(ACTIONS).where(this).values(changes=new_text))

    # Actions.

    def label_each(
        self,
        class_ids: Mapping[str, int | None],
        seen: Seen,
        *,
        author: str = "",
        contents: Mapping[str, str] | None = None,
        excerpts: Mapping[str, str | None] = NO_EXCERPTS,
        origin: Origin = Origin.CHOSEN,
    ) -> ActionResult:
        """Label several items in one action.

        A class id of None removes a label; `ASIDE` means that no class fits.
        """
        if not class_ids:
            raise InvalidInput("nothing was chosen", got="no item", allowed="one item or more")
        with self._action(author) as action:
            names = {each: action.class_name(each) for each in set(class_ids.values())}
            rows = action.labels(class_ids)
            changed = [row for item, row in rows.items() if row.version != seen.get(item, 0)]
            if changed:
                raise Conflict("somebody else labelled some of these items", changed)
            hashes = contents or {}
            changes = [
                Change(
                    row,
                    replace(
                        row,
                        class_id=class_ids[item],
                        content=hashes.get(item),
                        excerpt=excerpts.get(item, row.excerpt),
                        origin=origin,
                    ),
                )
                for item, row in rows.items()
            ]
            what = f": {names.popitem()[1]}" if len(names) == 1 else " labelled"
            return action.apply(changes, f"{numbered(len(changes), 'item')}{what}")

    def label_by_name(
        self,
        names: Mapping[str, str],
        *,
        author: str = "",
        excerpts: Mapping[str, str | None] = NO_EXCERPTS,
    ) -> ActionResult:
        """Label items that have no label yet, and create the classes they need.

        Names that differ only in capitals make different classes here: whether they mean the same
        is for users to decide, who can merge them.
        """
        with self._action(author) as action:
            ids = {row.name: row.id for row in action.classes()}
            new_classes: list[ClassRow] = []
            for name in dict.fromkeys(map(clean_name, names.values())):
                if name not in ids:
                    new_classes.append(ClassRow(action.free_id() + len(new_classes), name))
                    ids[name] = new_classes[-1].id
            _require_few(len(ids))
            changes = [Change(replace(new, deleted=True), new) for new in new_classes]
            for item, row in action.labels(names).items():
                if row.class_id is None:
                    class_id = ids[clean_name(names[item])]
                    excerpt = excerpts.get(item, row.excerpt)
                    changes.append(Change(row, replace(row, class_id=class_id, excerpt=excerpt)))
            number = len(changes) - len(new_classes)
            return action.apply(changes, f"{numbered(number, 'label')} imported")

    def add_class(self, name: str, *, author: str = "") -> ActionResult:
        """Add a class."""
        with self._action(author) as action:
            clean = clean_name(name)
            action.require_free(clean)
            _require_few(len(action.classes()) + 1)
            new = ClassRow(action.free_id(), clean)
            result = action.apply([Change(replace(new, deleted=True), new)], f"New class {clean}")
            return replace(result, class_id=new.id)

    def rename_class(
        self, class_id: int, name: str, *, author: str = "", seen: SeenClass = UNKNOWN
    ) -> ActionResult:
        """Rename a class."""
        with self._action(author) as action:
            old, clean = action.class_row(class_id), clean_name(name)
            action.require_class_seen(old, seen.version)
            action.require_free(clean, except_id=class_id)
            change = Change(old, replace(old, name=clean))
            return action.apply([change], f"{old.name} is now {clean}")

    def merge_classes(
        self,
        class_id: int,
        into: int,
        *,
        author: str = "",
        seen: SeenClass = UNKNOWN,
        into_seen: SeenClass = UNKNOWN,
    ) -> ActionResult:
        """Move all labels of a class to another one, and delete the class."""
        with self._action(author) as action:
            old, other = action.class_row(class_id), action.class_row(into)
            if old == other:
                raise InvalidInput(
                    "a class cannot be merged with itself", got=old.name, allowed="two classes"
                )
            action.require_class_seen(old, seen.version)
            action.require_class_seen(other, into_seen.version)
            action.require_labels_seen(old, seen.revision)
            changes = [Change(old, replace(old, deleted=True)), *action.moved(class_id, into)]
            return action.apply(changes, f"{old.name} merged into {other.name}")

    def delete_class(
        self, class_id: int, *, author: str = "", seen: SeenClass = UNKNOWN
    ) -> ActionResult:
        """Delete a class and its labels."""
        with self._action(author) as action:
            old = action.class_row(class_id)
            action.require_class_seen(old, seen.version)
            action.require_labels_seen(old, seen.revision)
            changes = [Change(old, replace(old, deleted=True)), *action.moved(class_id, None)]
            return action.apply(changes, f"{old.name} deleted")

    def undo(self, *, author: str = "") -> ActionResult:
        """Undo the author's last action that has not been undone yet.

        If another author has changed its rows since, this raises `Conflict` once; the next undo
        then skips it.
        """
        try:
            with self._action(author) as action:
                return history.undo(action)
        except CannotUndo as conflict:
            with self._translated_errors(), self._writer.begin() as connection:
                history.pass_over(connection, conflict.revision)
            raise

    def redo(self, *, author: str = "") -> ActionResult:
        """Redo the action that the author undid last, unless they have done anything since."""
        with self._action(author) as action:
            return history.redo(action)

    @contextmanager
    def _action(self, author: str) -> Iterator[Action]:
        """Open the transaction of one action; an action that fails is rolled back."""
        self._require_file()
        with self._translated_errors(), self._writer.begin() as connection:
            yield Action(connection, author)

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        self._require_file()
        with self._translated_errors(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise `StoreUnavailable` if a server is down or busy, a disk full, or a file damaged.

        Any other database error is a bug of ours, and passes unchanged.
        """
        try:
            yield
        except (DatabaseError, InterfaceError, PoolTimeout) as error:
            finding = damage(error)
            if finding is not None:
                raise damaged(self._file, finding) from error
            if not isinstance(error, OperationalError | InterfaceError | PoolTimeout):
                raise
            cause = error if isinstance(error, PoolTimeout) else error.orig
            raise StoreUnavailable(
                "the label database does not answer",
                got=str(cause).strip().split("\n")[0],
                allowed="a server that is up, or a disk with free space",
            ) from error

    def _require_file(self) -> None:
        """Raise if the database file was moved or replaced: what is written would be lost."""
        now = _identity(self._file)
        if self._file is not None and now != self._opened:
            raise StoreUnavailable(
                "the label database is gone",
                got=f"{'no file' if now is None else 'another file at'} {shown(self._file)}",
                allowed="the file that the studio was opened with",
                remedy="Move it back; if you only have a copy, restart the studio with it.",
            )


def _identity(file: Path | None) -> tuple[int, int] | None:
    """Return the device and inode of a file, which another file of that name does not share."""
    try:
        status = None if file is None else file.stat()
    except OSError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)


def _newer(table: sa.Table, revision: int) -> sa.Select[tuple[object, ...]]:
    return sa.select(table).where(table.c.version > revision)


def clean_name(name: str) -> str:
    """Return a class name with Unicode and white space normalised, or raise if it is invalid."""
    clean = " ".join(unicodedata.normalize("NFC", name).split())
    turned = any(unicodedata.bidirectional(each) in DIRECTIONS for each in clean)
    is_shown = clean.translate(CONTROL_CHARACTERS) == clean and not turned
    if not clean or len(clean) > MAX_NAME or not is_shown:
        raise InvalidInput(
            "this cannot be the name of a class",
            got=f"{shortened(name, 40)!r}, {numbered(len(clean), 'character')}",
            allowed=f"1 to {MAX_NAME} printable characters",
            remedy="Choose another name.",
        )
    return clean


def _require_few(classes: int) -> None:
    if classes > MAX_CLASSES:
        raise InvalidInput(
            "there are too many classes",
            got=f"{classes:,}",
            allowed=f"up to {MAX_CLASSES:,}",
            remedy="Merge or delete some.",
        )
