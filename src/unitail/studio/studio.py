"""A studio at work: the items, what is said of them, and the threads that answer."""

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Encoder
from unitail.studio import telling
from unitail.studio.answering import NONE, Answered, Answerer, Sheet
from unitail.studio.board import Board, Named
from unitail.studio.catalogue import Catalogue
from unitail.studio.estimate import Estimated, Superseded, estimate
from unitail.studio.events import Hub
from unitail.studio.export import Results
from unitail.studio.media import Media
from unitail.studio.rows import Done
from unitail.studio.store import Store
from unitail.studio.suggestions import doubts, suggest
from unitail.studio.vectors import Vectors
from unitail.studio.watch import Watch

POLL_SECONDS = 1.0
"""Between two looks at the database, which others may write to, and at the files."""
QUIET_SECONDS = 1.5
"""Without a new label, before the accuracy is estimated."""


class Studio:
    """Everything that the page shows and does."""

    def __init__(
        self,
        catalogue: Catalogue,
        store: Store,
        *,
        encoder: str | Encoder[Any] | None = None,
        cache: FeatureCache | None = None,
        device: str = "auto",
    ) -> None:
        self.catalogue, self.store, self.device = catalogue, store, device
        self.boot = secrets.token_hex(8)
        """Pages that know another one load everything again."""
        self.hub, self.media = Hub(), Media(catalogue)
        self.board, self.sheet = Board(catalogue), Sheet(len(catalogue))
        self.vectors = Vectors(catalogue, encoder=encoder, cache=cache, device=device)
        self.watch = Watch(catalogue)
        self.answerer = Answerer(
            self.board,
            self.vectors,
            self.sheet,
            device=device,
            on_answers=self._tell_answers,
            on_rest=self._answered,
        )
        self.estimated: Estimated | None = None
        self.changed: set[int] = set()
        """Files that changed while the studio was open."""
        self.trouble = ""
        """Why nothing is answered any more, if so."""
        self._sync_lock = threading.Lock()
        self._ended, self._labels_moved = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []
        self._take_given()
        self.board.take(store.since())

    def start(self) -> None:
        """Begin to encode, answer and watch, in threads of their own."""
        for work in (self._encode, self.answerer.run, self._watch, self._estimate):
            name = f"studio {work.__name__}"
            thread = threading.Thread(target=self._run, args=[work], daemon=True, name=name)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End all threads, and let go of the database."""
        self._ended.set()
        self._labels_moved.set()
        self.answerer.stop()
        self.hub.close()
        for thread in self._threads:
            thread.join(timeout=10)
        self.store.close()

    # What is done.

    def do(self, action: Callable[[Store], Done], looked_at: Sequence[int] | None = None) -> Done:
        """Change the store, and tell all pages."""
        done = action(self.store)
        self.answerer.wake(looked_at)
        self.sync()
        return done

    def label(
        self,
        class_ids: Mapping[int, int | None],
        seen: Mapping[int, int],
        *,
        author: str,
        looked_at: Sequence[int] | None = None,
    ) -> Done:
        """Label items by their places."""
        keys = self.catalogue.keys
        contents = {keys[place]: self.vectors.contents.get(place, "") for place in class_ids}

        def action(store: Store) -> Done:
            return store.label_each(
                {keys[place]: each for place, each in class_ids.items()},
                {keys[place]: version for place, version in seen.items()},
                author=author,
                contents=contents,
            )

        return self.do(action, looked_at)

    def use_folders(self, author: str) -> Done:
        """Make each subfolder a class, and label the files in it."""
        folders = self.catalogue.folder_classes()
        keys = self.catalogue.keys
        names = {keys[place]: name for name, places in folders.items() for place in places}
        return self.do(lambda store: store.label_by_name(names, author=author))

    def sync(self) -> None:
        """Take over what is new in the store, and tell it."""
        with self._sync_lock:
            snapshot = self.store.since(self.board.revision)
            if snapshot.revision == self.board.revision:
                return
            self.board.take(snapshot)
            self.hub.tell("changes", telling.changes(self.catalogue, snapshot))
        self.answerer.wake()
        self._labels_moved.set()

    # What is told.

    def progress(self) -> dict[str, Any]:
        """Return how far the encoding is, and what is wrong with files."""
        return telling.progress(self.vectors, self.board, self.changed)

    def next(self, count: int) -> list[int]:
        """Return what to label next."""
        named = self.board.named()
        known = self.vectors.known()
        done = np.array(sorted({*named.places, *named.aside}), dtype=np.int64)
        open_places = known[~np.isin(known, done)]
        if not len(open_places):
            return []
        answered = self.sheet.at(open_places)
        doubt = None if (answered.class_ids[:, 0] == NONE).any() else doubts(answered.probabilities)
        labelled = self.vectors.at(known[np.isin(known, done)])
        chosen = suggest(self.vectors.at(open_places), doubt, labelled, count, seed=len(done))
        return [int(place) for place in open_places[chosen]]

    def results(self) -> Results:
        """Return all labels and answers for files."""
        return Results.of(self.catalogue, self.board, self.vectors, device=self.device)

    @property
    def sorted_folder(self) -> Path:
        """The folder beside the items that the page sorts them into."""
        source = self.catalogue.source.resolve()
        return source.with_name(f"{source.stem if source.is_file() else source.name}-sorted")

    # What the threads do.

    def _run(self, work: Callable[[], None]) -> None:
        """Work, and tell if it ends by an error: nobody looks at a thread."""
        try:
            work()
        except Exception as error:
            if not self._ended.is_set():
                self.trouble = f"{type(error).__name__}: {error}"
                self.hub.tell("trouble", self.trouble)
                raise

    def _take_given(self) -> None:
        """Make labels of those that the table has, once."""
        given = self.catalogue.given
        if not given or self.store.revision() > 0:
            return
        keys = self.catalogue.keys
        self.store.label_by_name({keys[place]: name for place, name in given.items()})

    def _encode(self) -> None:
        def more() -> None:
            self.hub.tell("progress", self.progress())
            self.answerer.wake()

        labelled = self.board.named().places
        self.vectors.encode_all(labelled, on_more=more, is_over=self._ended.is_set)

    def _watch(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            self.sync()
            self.look_at_files()

    def look_at_files(self) -> None:
        """Take notice of files that have vanished or changed."""
        seen = self.watch.look()
        if not seen:
            return
        self.vectors.forget(seen.vanished, "the file is gone")
        self.vectors.encode_again(seen.changed)
        self.changed |= set(seen.changed)
        self.answerer.wake()
        self.hub.tell("progress", self.progress())

    def _tell_answers(self, answered: Answered) -> None:
        self.hub.tell("answers", telling.answers(answered))

    def _answered(self, _named: Named) -> None:
        self.hub.tell("rest", {"revision": self.board.revision})

    def _estimate(self) -> None:
        while not self._ended.is_set():
            self._labels_moved.wait()
            self._labels_moved.clear()
            if self._ended.wait(QUIET_SECONDS) or self._labels_moved.is_set():
                continue
            try:
                self.estimated = estimate(
                    self.vectors,
                    self.board.named(),
                    device=self.device,
                    is_over=self._labels_moved.is_set,
                )
            except Superseded:
                continue
            self.hub.tell("estimate", telling.estimated(self.estimated))
