"""Check that a studio killed at any moment loses at most the action in flight.

    python bench/studio_kills.py --kills 200 --out results/studio_kills.md

A scripted labeller works in its own process and reports each completed action. It is killed
(SIGKILL) at a random moment, the database is reopened, and the next labeller continues. Its next
action depends only on the revision, so an undisturbed process with the same script determines what
the database must hold after each action.
"""

import argparse
import hashlib
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

from measuring.page import Page

from unitail.errors import InvalidInput
from unitail.studio.store import Store
from unitail.studio.stored_rows import ASIDE

ITEMS = 300
MAX_CLASSES = 12
MAX_LIFETIME = 0.5
"""Maximum lifetime of a labeller in seconds: enough for a dozen actions."""


def step(store: Store) -> None:
    """Perform the next action, determined by the revision."""
    generator = random.Random(store.revision())
    snapshot = store.since()
    classes = [row.id for row in snapshot.classes if not row.deleted]
    versions = {row.item: row.version for row in snapshot.labels}
    kind = generator.choices(
        ["one", "many", "undo", "redo", "rename", "merge", "delete"], [8, 6, 4, 2, 2, 1, 1]
    )[0]
    if len(classes) < 3 or (len(classes) < MAX_CLASSES and generator.random() < 0.1):
        store.add_class(f"class {store.revision()}")
        return
    try:
        if kind in ("one", "many"):
            chosen = generator.sample(range(ITEMS), 1 if kind == "one" else 40)
            items = {f"item {each}": versions.get(f"item {each}", 0) for each in chosen}
            class_id = generator.choice([*classes, ASIDE, None])
            store.label_each(dict.fromkeys(items, class_id), items)
        elif kind == "rename":
            store.rename_class(generator.choice(classes), f"name {store.revision()}")
        elif kind == "merge":
            source, target = generator.sample(classes, 2)
            store.merge_classes(source, target)
        elif kind == "delete":
            store.delete_class(generator.choice(classes))
        else:
            store.undo() if kind == "undo" else store.redo()
    except InvalidInput:  # nothing to undo or redo
        store.add_class(f"class {store.revision()}")


def digest(store: Store) -> str:
    """Sum up all rows."""
    snapshot = store.since()
    return hashlib.sha256(repr((snapshot.classes, snapshot.labels)).encode()).hexdigest()[:16]


def labour(url: str, line: Connection) -> None:
    """Perform actions until killed, and send each revision once it is committed."""
    store = Store(url)
    while True:
        step(store)
        line.send(store.revision())


def kill_once(url: str, generator: random.Random) -> int | None:
    """Let a labeller work, kill it, and return the last revision that it reported."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=labour, args=[url, there])
    process.start()
    there.close()
    time.sleep(generator.uniform(0, MAX_LIFETIME))
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    last: int | None = None
    try:
        while here.poll():
            last = here.recv()
    except EOFError:  # the end, perhaps in the middle of a number
        pass
    return last


class Reference:
    """Expected database contents after each action, from an undisturbed labeller."""

    def __init__(self, url: str) -> None:
        self._store = Store(url)
        self._digests = [digest(self._store)]

    def digest(self, revision: int) -> str:
        """Return the hash of all rows at a revision."""
        while len(self._digests) <= revision:
            step(self._store)
            self._digests.append(digest(self._store))
        return self._digests[revision]


def main() -> None:
    """Kill, reopen and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    page = Page(args.out, "Kills", f"A scripted labeller was killed {args.kills} times.")
    generator = random.Random(args.seed)
    outcomes: Counter[str] = Counter()
    revision = 0
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/studio.db"
        reference = Reference(f"sqlite:///{folder}/reference.db")
        for _ in range(args.kills):
            reported = kill_once(url, generator)
            store = Store(url)
            before, revision = revision if reported is None else reported, store.revision()
            outcomes["lost"] += revision < before
            outcomes["more than one in flight"] += revision > before + 1
            outcomes["one in flight was kept"] += revision == before + 1
            outcomes["none in flight was kept"] += revision == before
            outcomes["half done"] += digest(store) != reference.digest(revision)
            store.close()
    page.table(["kills", "actions done", *outcomes], [[args.kills, revision, *outcomes.values()]])
    page.text(
        "*Lost*: an action that the labeller had been told was done is not there. *Half done*: the"
        " rows are not exactly those that the same script leaves where nobody kills it."
    )
    failures = outcomes["lost"] + outcomes["more than one in flight"] + outcomes["half done"]
    assert failures == 0, outcomes


if __name__ == "__main__":
    main()
