"""Two people change classes at once: whoever has not seen the other's work overwrites nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unitail.studio.store import SeenClass, Store
from unitail.studio.stored_rows import Conflict, Snapshot


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{tmp_path / 'labels.db'}")
    yield store
    store.close()


def label(store: Store, class_id: int, *items: str, author: str = "bob") -> None:
    seen = {row.item: row.version for row in store.since().labels}
    store.label_each(dict.fromkeys(items, class_id), seen, author=author)


def add(store: Store, name: str, author: str = "ann") -> int:
    class_id = store.add_class(name, author=author).class_id
    assert class_id is not None
    return class_id


def dangling(snapshot: Snapshot) -> list[str]:
    """Return items whose class is deleted, or does not exist."""
    classes = {row.id for row in snapshot.classes if not row.deleted} | {0, None}
    return [row.item for row in snapshot.labels if row.class_id not in classes]


def added(store: Store) -> None:
    """Ann adds a class that Bob then uses, and undoes it."""
    label(store, add(store, "fresh"), "x")
    store.undo(author="ann")


def added_and_undone(store: Store) -> None:
    """Ann labels as a class and takes it back, Bob deletes the class, and Ann redoes the label."""
    old = add(store, "old", "bob")
    label(store, old, "x", author="ann")
    store.undo(author="ann")
    store.delete_class(old, author="bob")
    store.redo(author="ann")


def deleted(store: Store) -> None:
    """Ann deletes a class and takes it back, Bob labels more, and Ann redoes it."""
    old = add(store, "old")
    label(store, old, "x")
    store.delete_class(old, author="ann")
    store.undo(author="ann")
    label(store, old, "y")
    store.redo(author="ann")


def merged(store: Store) -> None:
    one, other = add(store, "one"), add(store, "other")
    label(store, one, "x")
    store.merge_classes(one, other, author="ann")
    store.undo(author="ann")
    label(store, one, "y")
    store.redo(author="ann")


def took_folders(store: Store) -> None:
    store.label_by_name({"x": "warm", "y": "cold"}, author="ann")
    label(store, 1, "z")
    store.undo(author="ann")


@pytest.mark.parametrize("story", [added, added_and_undone, deleted, merged, took_folders])
def test_undo_and_redo_never_leave_a_label_without_its_class(
    store: Store, story: Callable[[Store], None]
) -> None:
    with pytest.raises(Conflict, match=r"more labels of \w+ by now|deleted the class of these"):
        story(store)
    assert dangling(store.since()) == []


def test_undo_of_a_delete_and_of_ones_own_class_still_work(store: Store) -> None:
    old = add(store, "old")
    label(store, old, "x", author="ann")
    store.delete_class(old, author="ann")
    for _ in range(3):  # the delete, the label, the class
        store.undo(author="ann")
    for _ in range(3):
        store.redo(author="ann")
    assert [row.deleted for row in store.since().classes] == [True]
    assert dangling(store.since()) == []


def test_the_second_rename_does_not_win_silently(store: Store) -> None:
    class_id = add(store, "cat")
    seen = SeenClass(store.since().classes[0].version)
    store.rename_class(class_id, "cats", author="ann", seen=seen)
    store.rename_class(class_id, "tabby", author="ann", seen=seen)  # she knows what she did
    with pytest.raises(Conflict, match="somebody else changed this class meanwhile: got tabby"):
        store.rename_class(class_id, "dogs", author="bob", seen=seen)
    [row] = store.since().classes
    assert row.name == "tabby"
    store.rename_class(class_id, "dogs", author="bob", seen=SeenClass(row.version))
    store.rename_class(class_id, "cows", author="bob")  # older pages say nothing


def test_labels_that_the_author_has_not_seen_are_neither_deleted_nor_moved(store: Store) -> None:
    one, other = add(store, "one"), add(store, "other")
    label(store, one, "x")
    seen = SeenClass(store.since().classes[0].version, store.revision())
    label(store, one, "y", author="ann")
    label(store, other, "z")
    message = "somebody else labelled items as one meanwhile: got y"
    with pytest.raises(Conflict, match=message):
        store.delete_class(one, author="bob", seen=seen)
    with pytest.raises(Conflict, match=message):
        store.merge_classes(one, other, author="bob", seen=seen)
    store.delete_class(one, author="ann", seen=seen)  # the only newer label is her own
    assert [row.class_id for row in store.since().labels] == [None, None, other]


def test_a_class_is_not_merged_into_one_that_means_something_else_now(store: Store) -> None:
    one, other = add(store, "one"), add(store, "other")
    store.rename_class(other, "rest", author="bob")
    with pytest.raises(Conflict, match="got rest changed meanwhile"):
        store.merge_classes(one, other, author="ann", into_seen=SeenClass(other))
