import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from unitail.errors import CannotWrite, InvalidConfig, InvalidInput
from unitail.studio.schema import COUNTERS, database_of, open_database
from unitail.studio.store import Store
from unitail.studio.stored_rows import ASIDE, ActionResult, Conflict

POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """Start a PostgreSQL server of our own, where it is installed; it listens on no port."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    if not POSTGRES:
        pytest.skip("PostgreSQL is not installed")
    bin_folder = POSTGRES[-1]
    # Sockets have short names, and the server refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    as_user: list[str] = []
    if Path("/proc/self").owner() == "root":
        shutil.chown(folder, "nobody")
        as_user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    options = ["-N", "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C"]
    subprocess.run(
        [*as_user, bin_folder / "initdb", "-D", folder / "data", *options], check=True, **quiet
    )
    settings = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    control = [*as_user, bin_folder / "pg_ctl", "-D", folder / "data", "-w"]
    subprocess.run([*control, "-o", settings, "-l", folder / "log", "start"], check=True, **quiet)
    try:
        yield f"postgresql+psycopg://tester@/postgres?host={folder}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=False, **quiet)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return database_of(tmp_path, None)
    address: str = request.getfixturevalue("postgres")
    engine = sa.create_engine(address)
    with engine.begin() as connection:
        for table in ("counters", "classes", "labels", "actions", "settings"):
            connection.execute(sa.text(f"DROP TABLE IF EXISTS {table}"))
    engine.dispose()
    return address


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = Store(url)
    yield store
    store.close()


def labels(store: Store) -> dict[str, str]:
    snapshot = store.since()
    names = {row.id: row.name for row in snapshot.classes if not row.deleted}
    names[ASIDE] = "(none)"
    return {row.item: names[row.class_id] for row in snapshot.labels if row.class_id is not None}


def classes(store: Store) -> list[str]:
    return [row.name for row in store.since().classes if not row.deleted]


def label(
    store: Store, seen: dict[str, int], class_id: int | None, author: str = ""
) -> ActionResult:
    return store.label_each(dict.fromkeys(seen, class_id), seen, author=author)


def version(store: Store, item: str) -> int:
    return next((row.version for row in store.since().labels if row.item == item), 0)


def test_labels_are_there_when_it_is_opened_again(store: Store, url: str) -> None:
    cat = store.add_class("cat").class_id
    label(store, {"a": 0, "b": 0}, cat)
    label(store, {"c": 0}, ASIDE)
    again = Store(url)
    assert labels(again) == {"a": "cat", "b": "cat", "c": "(none)"}
    assert again.revision() == 3
    again.close()


def test_only_what_came_after_a_revision_is_told(store: Store) -> None:
    cat = store.add_class("cat").class_id
    seen = label(store, {"a": 0}, cat).revision
    assert store.since(seen).labels == ()
    done = label(store, {"b": 0, "a": seen}, None)
    snapshot = store.since(seen)
    assert snapshot.revision == done.revision == seen + 1
    assert [(row.item, row.class_id, row.version) for row in snapshot.labels] == [
        ("a", None, done.revision),
        ("b", None, done.revision),
    ]
    assert snapshot.classes == ()


def test_a_conflicting_edit_is_refused_whole_and_tells_what_the_other_did(store: Store) -> None:
    cat, dog = store.add_class("cat").class_id, store.add_class("dog").class_id
    label(store, {"a": 0}, cat, author="ann")
    before = store.revision()
    with pytest.raises(Conflict, match="somebody else labelled some of these items") as caught:
        label(store, {"b": 0, "a": 0}, dog, author="bob")
    assert [(row.item, row.class_id) for row in caught.value.rows] == [("a", cat)]  # type: ignore[union-attr]
    assert labels(store) == {"a": "cat"}
    assert store.revision() == before
    label(store, {"b": 0, "a": version(store, "a")}, dog, author="bob")
    assert labels(store) == {"a": "dog", "b": "dog"}


def test_an_item_that_was_labelled_and_taken_back_has_changed_too(store: Store) -> None:
    cat = store.add_class("cat").class_id
    first = label(store, {"a": 0}, cat).revision
    label(store, {"a": first}, None)
    with pytest.raises(Conflict):
        label(store, {"a": first}, cat)  # one action old is as good as many


def test_of_two_who_write_at_once_one_wins(url: str) -> None:
    stores = [Store(url) for _ in range(4)]
    cat = stores[0].add_class("cat").class_id
    barrier, outcomes = threading.Barrier(4), []

    def write(store: Store) -> None:
        barrier.wait()
        try:
            label(store, {"a": 0}, cat)
            outcomes.append("done")
        except Conflict:
            outcomes.append("conflict")

    threads = [threading.Thread(target=write, args=[store]) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["conflict"] * 3 + ["done"]
    assert stores[0].revision() == cat + 1
    for store in stores:
        store.close()


def test_classes_are_renamed_merged_and_deleted_with_their_labels(store: Store) -> None:
    cat, dog, cow = (store.add_class(name).class_id for name in ("cat", "dog", "cow"))
    labelled = store.label_each({"a": cat, "b": dog, "c": cow}, {})
    assert labelled.title == "3 items labelled"
    store.rename_class(cat, "  Cats\u00a0 of\nprey ")
    store.merge_classes(dog, cat)
    assert labels(store) == {"a": "Cats of prey", "b": "Cats of prey", "c": "cow"}
    done = store.delete_class(cow)
    assert (done.title, done.items) == ("cow deleted", ("c",))
    assert labels(store) == {"a": "Cats of prey", "b": "Cats of prey"}
    assert classes(store) == ["Cats of prey"]
    with pytest.raises(InvalidInput, match="the class does not exist: got class"):
        label(store, {"c": 4}, dog)


@pytest.mark.parametrize("name", ["", " \n", "x" * 101, "a\x07b", "evil\u202egpj", "\u2066x"])
def test_bad_names_are_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidInput, match=r"be the name of a class: got .* character"):
        store.add_class(name)
    assert store.revision() == 0


def test_two_classes_never_have_one_name(store: Store) -> None:
    cat, dog = store.add_class("Café").class_id, store.add_class("dog").class_id
    with pytest.raises(InvalidInput, match="there is already a class of this name: got 'Café'"):
        store.add_class("cafe\u0301")
    with pytest.raises(InvalidInput, match="or merge the two classes"):
        store.rename_class(dog, "CAFÉ")
    store.rename_class(cat, "café")
    with pytest.raises(InvalidInput, match="cannot be merged with itself"):
        store.merge_classes(cat, cat)
    with pytest.raises(InvalidInput, match="nothing was chosen"):
        label(store, {}, cat)


def test_everything_can_be_undone_and_done_again_in_order(store: Store) -> None:
    states = [(classes(store), labels(store))]

    def note() -> None:
        states.append((classes(store), labels(store)))

    cat = store.add_class("cat").class_id
    note()
    dog = store.add_class("dog").class_id
    note()
    label(store, {"a": 0, "b": 0}, cat)
    note()
    label(store, {"b": version(store, "b"), "c": 0}, dog)
    note()
    store.rename_class(dog, "hound")
    note()
    store.merge_classes(cat, dog)
    note()
    store.delete_class(dog)
    note()
    for state in reversed(states[:-1]):
        store.undo()
        assert (classes(store), labels(store)) == state
    with pytest.raises(InvalidInput, match="there is nothing to undo"):
        store.undo()
    for state in states[1:]:
        store.redo()
        assert (classes(store), labels(store)) == state
    with pytest.raises(InvalidInput, match="there is nothing to redo"):
        store.redo()


def test_what_was_undone_is_gone_once_something_else_is_done(store: Store) -> None:
    cat = store.add_class("cat").class_id
    label(store, {"a": 0}, cat)
    store.undo()
    label(store, {"b": 0}, cat)
    with pytest.raises(InvalidInput, match="there is nothing to redo"):
        store.redo()
    store.undo()
    store.redo()
    assert labels(store) == {"b": "cat"}


def test_undo_is_of_ones_own_and_never_overwrites_another(store: Store) -> None:
    cat = store.add_class("cat", author="ann").class_id
    done = label(store, {"a": 0}, cat, author="ann")
    label(store, {"b": 0}, cat, author="bob")
    assert store.undo(author="ann").title == f"Undone: {done.title}"
    assert labels(store) == {"b": "cat"}
    store.redo(author="ann")
    label(store, {"a": version(store, "a")}, ASIDE, author="bob")
    before = store.since()
    with pytest.raises(Conflict, match="somebody else has since changed the same items or classes"):
        store.undo(author="ann")
    assert store.since() == before


def test_what_cannot_be_undone_is_refused_once_by_name_and_then_passed_over(store: Store) -> None:
    a, b = (store.add_class(name, author="ann").class_id for name in "ab")
    store.label_each({"x.png": a}, {}, author="ann")
    done = store.label_each({"y.png": a}, {}, author="ann")
    store.label_each({"y.png": b}, {"y.png": done.revision}, author="bob")
    with pytest.raises(Conflict, match=r"got y\.png changed meanwhile"):
        store.undo(author="ann")
    assert store.undo(author="ann").title == "Undone: 1 item: a"
    assert {row.item: row.class_id for row in store.since().labels} == {"x.png": None, "y.png": b}
    assert store.redo(author="ann").items == ("x.png",)
    with pytest.raises(InvalidInput, match="there is nothing to redo"):
        store.redo(author="ann")


def test_undo_does_not_bring_a_name_back_that_another_class_has(store: Store) -> None:
    cat = store.add_class("cat", author="ann").class_id
    store.delete_class(cat, author="ann")
    store.add_class("cat", author="bob")
    with pytest.raises(Conflict, match="there is another class 'cat' by now"):
        store.undo(author="ann")


def test_labels_that_were_there_before_come_in_at_once(store: Store) -> None:
    cat = store.add_class("Cat").class_id
    label(store, {"a": 0}, cat)
    done = store.label_by_name({"a": "dog", "b": "cat", "c": "Cat", "d": "dog", "e": " dog"})
    assert (done.items, done.title) == (tuple("bcde"), "4 labels imported")
    # Data that say "cat" and "Cat" may mean two things; the user can merge them.
    assert labels(store) == {"a": "Cat", "b": "cat", "c": "Cat", "d": "dog", "e": "dog"}
    store.undo()
    assert (classes(store), labels(store)) == (["Cat"], {"a": "Cat"})
    with pytest.raises(InvalidInput, match="there are too many classes: got 1,001"):
        store.label_by_name({str(number): f"class {number}" for number in range(1000)})


def test_thousands_are_labelled_at_once(store: Store) -> None:
    cat = store.add_class("cat").class_id
    items = {f"item {number}": 0 for number in range(1201)}
    label(store, items, cat)
    assert len(labels(store)) == 1201
    store.undo()
    assert labels(store) == {}


def test_a_project_lies_beside_what_it_labels(tmp_path: Path) -> None:
    assert database_of(tmp_path, None) == f"sqlite:///{tmp_path}/.unitail/studio.db"
    table = tmp_path / "mails.csv"
    assert database_of(table, None) == f"sqlite:///{tmp_path}/.unitail/mails.csv.studio.db"
    own = tmp_path / "x" / "own.db"
    assert database_of(table, str(own)) == f"sqlite:///{own}"
    assert database_of(table, "postgresql://host/db") == "postgresql://host/db"


def test_a_database_that_cannot_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="the studio's database is unknown: got 'nosuch://x'"):
        Store("nosuch://x")
    with pytest.raises(CannotWrite, match=r"no/a\.db cannot be opened: got unable to open"):
        Store(f"sqlite:///{tmp_path}/no/a.db")


def test_another_layout_is_not_touched(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path}/a.db")
    with engine.begin() as connection:
        connection.execute(sa.update(COUNTERS).where(COUNTERS.c.name == "format").values(value=9))
    engine.dispose()
    with pytest.raises(InvalidConfig, match="made by another version of unitail: got format 9"):
        Store(f"sqlite:///{tmp_path}/a.db")
