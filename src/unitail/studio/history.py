"""Undo and redo: an author's own last action, replayed if nobody has changed its rows since."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from unitail.errors import InvalidInput
from unitail.studio.action import Action
from unitail.studio.schema import ACTIONS, CLASSES
from unitail.studio.stored_rows import (
    ActionResult,
    Change,
    ClassRow,
    Conflict,
    LabelRow,
    Row,
    changes_from_text,
    same_content,
)

NEVER = 0
"""In place of the revision that undid an action: it cannot be undone, nor redone."""


class CannotUndo(Conflict):
    """Others have changed the rows of the action since; `revision` is its number."""

    def __init__(self, conflict: Conflict, revision: int) -> None:
        super().__init__(conflict.wrong, conflict.rows)
        self.revision = revision


def undo(action: Action) -> ActionResult:
    """Undo the author's last action that has not been undone yet."""
    last = _find(action, ACTIONS.c.undone.is_(None), ACTIONS.c.revision)
    if last is None:
        raise _nothing_to("undo", "undone")
    changes = [each.inverse() for each in changes_from_text(last.changes)]
    try:
        return _replay(action, last, changes, f"Undone: {last.title}", undone=action.revision)
    except Conflict as conflict:
        raise CannotUndo(conflict, last.revision) from conflict


def redo(action: Action) -> ActionResult:
    """Redo the action that the author undid last, unless they have done anything since."""
    last = _find(action, ACTIONS.c.undone.is_not(None), ACTIONS.c.undone)
    newest = _find(action, sa.true(), ACTIONS.c.revision)
    if last is None or newest is None or newest.revision > last.undone:
        raise _nothing_to("redo", "done again")
    changes = changes_from_text(last.changes)
    return _replay(action, last, changes, f"Redone: {last.title}", undone=None)


def pass_over(connection: sa.Connection, revision: int) -> None:
    """Let the next undo skip this action."""
    this = ACTIONS.c.revision == revision
    connection.execute(sa.update(ACTIONS).where(this).values(undone=NEVER))


def _find(action: Action, which: sa.ColumnElement[bool], latest: sa.Column[Any]) -> Any:  # noqa: ANN401
    """Return the author's latest action that meets a condition, as a row of the history."""
    is_own = ACTIONS.c.author == action.author
    query = sa.select(ACTIONS).where(is_own, which).order_by(latest.desc()).limit(1)
    return action.connection.execute(query).first()


def _replay(
    action: Action,
    past: Any,  # noqa: ANN401 - a row of the history
    changes: Sequence[Change],
    title: str,
    *,
    undone: int | None,
) -> ActionResult:
    """Make the changes of a past action again, or their inverses."""
    _require_unchanged(action, changes)
    action.write(changes)
    this = ACTIONS.c.revision == past.revision
    action.connection.execute(sa.update(ACTIONS).where(this).values(undone=undone))
    return action.result(changes, title)


def _require_unchanged(action: Action, changes: Sequence[Change]) -> None:
    labels = action.labels(each.after.item for each in changes if isinstance(each.after, LabelRow))
    query = action.connection.execute(sa.select(CLASSES)).mappings()
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
    _require_labels_kept(action, changes, {row.id for row in after.values() if row.deleted})


def _require_labels_kept(action: Action, changes: Sequence[Change], deleted: set[int]) -> None:
    """Raise if labels of deleted classes would remain: others' of a class that goes, or ours.

    Labels that the changes themselves move do not count.
    """
    rows = [each.after for each in changes if isinstance(each.after, LabelRow)]
    dangling = [row for row in rows if row.class_id in deleted]
    if dangling:
        raise Conflict("somebody else has since deleted the class of these items", dangling)
    moved = {row.item for row in rows}
    for row in _classes_after(changes):
        labels = action.labels_of(row.id) if row.deleted else []
        left = [each for each in labels if each.item not in moved]
        if left:
            raise Conflict(f"there are more labels of {row.name} by now", left)


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


def _nothing_to(what: str, done: str) -> InvalidInput:
    return InvalidInput(
        f"there is nothing to {what}",
        got=f"nothing changed from this browser that could be {done}",
        allowed="changes that were made from this browser",
        remedy="Change back by hand what was done from elsewhere.",
    )
