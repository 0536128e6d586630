"""Labels and classes that outlive any crash: every action is one transaction, and can be undone.

An action says which version of each row its author saw. If somebody has changed one since, nothing
is done, and `Conflict` tells what they did. Writers take turns: the first thing that an action does
is to count up the revision, whose row others then wait for.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from unitail.errors import InvalidInput
from unitail.studio.action import Action, current_revision
from unitail.studio.changes import (
    Change,
    ClassRow,
    Conflict,
    Done,
    LabelRow,
    Snapshot,
    StoreAway,
    changes_from_text,
)
from unitail.studio.schema import (
    ACTIONS,
    CLASSES,
    LABELS,
    WRITES,
    damage,
    damaged,
    file_behind,
    open_database,
)
from unitail.wording import CONTROL_CHARACTERS, excerpt, numbered, shown

MAX_NAME = 100
"""Characters of a class name."""
MAX_CLASSES = 1000

Seen = Mapping[str, int]
"""The items of an action, with the version of each label that its author saw; 0 for none."""


class Store:
    """The classes, labels and history of a project."""

    def __init__(self, url: str) -> None:
        self._engine = open_database(url)
        self._writer = self._engine.execution_options(**{WRITES: True})
        self._file = file_behind(self._engine)
        self._opened = _identity(self._file)

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    # What there is.

    def revision(self) -> int:
        """Return the number of the last action."""
        with self._reading() as connection:
            return current_revision(connection)

    def since(self, revision: int = -1) -> Snapshot:
        """Return all rows that changed after a revision; tombstones are among them."""
        with self._reading() as connection:
            now = current_revision(connection)
            classes = connection.execute(_newer(CLASSES, revision).order_by(CLASSES.c.id))
            labels = connection.execute(_newer(LABELS, revision).order_by(LABELS.c.item))
            return Snapshot(
                now,
                tuple(ClassRow(**row) for row in classes.mappings()),
                tuple(LabelRow(**row) for row in labels.mappings()),
            )

    # What can be done.

    def label_each(
        self,
        class_ids: Mapping[str, int | None],
        seen: Seen,
        *,
        author: str = "",
        contents: Mapping[str, str] | None = None,
    ) -> Done:
        """Say of each item what it is, in one action.

        None takes a label back, `ASIDE` says that no class fits.
        """
        if not class_ids:
            raise InvalidInput("nothing was chosen", got="no item", allowed="one item or more")
        with self._action(author) as action:
            names = {each: action.class_name(each) for each in set(class_ids.values())}
            rows = action.labels(class_ids)
            changed = [row for item, row in rows.items() if row.version != seen.get(item, 0)]
            if changed:
                raise Conflict("somebody else labelled some of these items", changed)
            known = contents or {}
            changes = [
                Change(row, replace(row, class_id=class_ids[item], content=known.get(item)))
                for item, row in rows.items()
            ]
            what = names.popitem()[1] if len(names) == 1 else f"{len(names)} classes"
            return action.do(changes, f"{numbered(len(changes), 'item')}: {what}")

    def label_by_name(self, names: Mapping[str, str], *, author: str = "") -> Done:
        """Label items that have no label yet, and make the classes that are missing for it.

        Names that differ in capitals alone are different here: that they are one is for the user
        to say, who can merge them.
        """
        with self._action(author) as action:
            ids = {row.name: row.id for row in action.classes()}
            made: list[ClassRow] = []
            for name in dict.fromkeys(map(clean_name, names.values())):
                if name not in ids:
                    made.append(ClassRow(action.free_id() + len(made), name))
                    ids[name] = made[-1].id
            _require_few(len(ids))
            changes = [Change(replace(new, deleted=True), new) for new in made]
            for item, row in action.labels(names).items():
                if row.class_id is None:
                    class_id = ids[clean_name(names[item])]
                    changes.append(Change(row, replace(row, class_id=class_id)))
            number = len(changes) - len(made)
            return action.do(changes, f"{numbered(number, 'label')} that were there before")

    def add_class(self, name: str, *, author: str = "") -> Done:
        """Add a class."""
        with self._action(author) as action:
            clean = clean_name(name)
            action.require_free(clean)
            _require_few(len(action.classes()) + 1)
            new = ClassRow(action.free_id(), clean)
            done = action.do([Change(replace(new, deleted=True), new)], f"New class {clean}")
            return replace(done, class_id=new.id)

    def rename_class(self, class_id: int, name: str, *, author: str = "") -> Done:
        """Give a class another name."""
        with self._action(author) as action:
            old, clean = action.class_row(class_id), clean_name(name)
            action.require_free(clean, but=class_id)
            change = Change(old, replace(old, name=clean))
            return action.do([change], f"{old.name} is now {clean}")

    def merge_classes(self, class_id: int, into: int, *, author: str = "") -> Done:
        """Move all labels of a class into another, and delete it."""
        with self._action(author) as action:
            old, other = action.class_row(class_id), action.class_row(into)
            if old == other:
                raise InvalidInput(
                    "a class cannot be merged with itself", got=old.name, allowed="two classes"
                )
            changes = [Change(old, replace(old, deleted=True)), *action.moved(class_id, into)]
            return action.do(changes, f"{old.name} merged into {other.name}")

    def delete_class(self, class_id: int, *, author: str = "") -> Done:
        """Delete a class, and take its labels back."""
        with self._action(author) as action:
            old = action.class_row(class_id)
            changes = [Change(old, replace(old, deleted=True)), *action.moved(class_id, None)]
            return action.do(changes, f"{old.name} deleted")

    def undo(self, *, author: str = "") -> Done:
        """Take back the last action of an author that still stands."""
        with self._action(author) as action:
            last = action.find(ACTIONS.c.undone.is_(None), ACTIONS.c.revision)
            if last is None:
                raise _nothing("undo")
            changes = [each.inverse() for each in changes_from_text(last.changes)]
            return action.again(last, changes, f"Undone: {last.title}", undone=action.revision)

    def redo(self, *, author: str = "") -> Done:
        """Do again what the author undid last, unless they have done something else since."""
        with self._action(author) as action:
            last = action.find(ACTIONS.c.undone.is_not(None), ACTIONS.c.undone)
            newest = action.find(sa.true(), ACTIONS.c.revision)
            if last is None or newest is None or newest.revision > last.undone:
                raise _nothing("redo")
            changes = changes_from_text(last.changes)
            return action.again(last, changes, f"Done again: {last.title}", undone=None)

    @contextmanager
    def _action(self, author: str) -> Iterator[Action]:
        """Begin a transaction that is an action; what is refused leaves no trace."""
        self._require_file()
        with self._told_if_away(), self._writer.begin() as connection:
            yield Action(connection, author)

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        self._require_file()
        with self._told_if_away(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _told_if_away(self) -> Iterator[None]:
        """Say in a sentence that a server is down or busy, a disk full, or a file damaged.

        Other errors are ours.
        """
        try:
            yield
        except (DatabaseError, InterfaceError, PoolTimeout) as error:
            found = damage(error)
            if found is not None:
                raise damaged(self._file, found) from error
            if not isinstance(error, OperationalError | InterfaceError | PoolTimeout):
                raise
            cause = error if isinstance(error, PoolTimeout) else error.orig
            raise StoreAway(
                "the database of the labels does not answer",
                got=str(cause).strip().split("\n")[0],
                allowed="a server that is up, or a disk with some room",
            ) from error

    def _require_file(self) -> None:
        """Refuse what would go to a file that has no name any more, and end with this process."""
        now = _identity(self._file)
        if self._file is not None and now != self._opened:
            raise StoreAway(
                "the database of the labels is gone",
                got=f"{'no file' if now is None else 'another file at'} {shown(self._file)}",
                allowed="the file that the studio was opened with",
                remedy="Move it back to its place; if you only have a copy, start the studio again"
                " with it.",
            )


def _identity(file: Path | None) -> tuple[int, int] | None:
    """Tell a file from any other that has its name; None if there is none."""
    try:
        status = None if file is None else file.stat()
    except OSError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)


def _newer(table: sa.Table, revision: int) -> sa.Select[tuple[object, ...]]:
    return sa.select(table).where(table.c.version > revision)


def clean_name(name: str) -> str:
    """Return a class name in one way of writing it, or refuse it."""
    clean = " ".join(unicodedata.normalize("NFC", name).split())
    if not clean or len(clean) > MAX_NAME or clean.translate(CONTROL_CHARACTERS) != clean:
        raise InvalidInput(
            "this cannot be the name of a class",
            got=f"{excerpt(name, 40)!r}, {numbered(len(clean), 'character')}",
            allowed=f"1 to {MAX_NAME} characters that can be seen",
            remedy="Write another name.",
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


def _nothing(what: str) -> InvalidInput:
    return InvalidInput(
        f"there is nothing to {what}",
        got="no such action of yours",
        allowed="what you did yourself",
        remedy="Go on.",
    )
