"""A studio at work: the items, what is said of them, and the threads that answer."""

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Encoder
from unitail.errors import InvalidInput
from unitail.studio import page_data
from unitail.studio.answerer import Answerer
from unitail.studio.background import calm_numpy, step_back
from unitail.studio.catalogue import Catalogue
from unitail.studio.changes import Done, StoreAway
from unitail.studio.estimate import Estimated, Superseded, estimate
from unitail.studio.events import Hub
from unitail.studio.exports import GONE, LatestResults, Results
from unitail.studio.latest import NONE, Answered, Labelled, Labels, LatestAnswers, Places
from unitail.studio.media import Media
from unitail.studio.store import Store
from unitail.studio.suggestions import doubts, suggest
from unitail.studio.vectors import Vectors
from unitail.studio.watch import Watch
from unitail.wording import shown

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
        self.labels, self.answers = Labels(catalogue), LatestAnswers(len(catalogue))
        self.vectors = Vectors(catalogue, encoder=encoder, cache=cache, device=device)
        self.watch = Watch(catalogue)
        self._results = LatestResults(catalogue, self.labels, self.vectors, device=device)
        self.answerer = Answerer(
            self.labels,
            self.vectors,
            self.answers,
            device=device,
            on_answers=self._tell_answers,
            on_novelty=self._tell_novelty,
            on_rest=self._answered,
        )
        self.estimated: Estimated | None = None
        self.changed: set[int] = set()
        """Files that changed while the studio was open."""
        self.trouble = ""
        """Why nothing is answered any more, if so."""
        self._sync_lock, self._look_lock = threading.Lock(), threading.Lock()
        self._ended, self._labels_moved = threading.Event(), threading.Event()
        self._new_items = threading.Event()
        self._threads: list[threading.Thread] = []
        self._calmed: threadpool_limits | None = None
        self._cores = torch.get_num_threads()
        self._take_given()
        self.labels.take(store.since())

    def start(self) -> None:
        """Begin to encode, answer and watch, in threads of their own."""
        self._calmed = calm_numpy()
        for work in (self._encode, self.answerer.run, self._watch, self._estimate):
            name = f"studio {work.__name__}"
            thread = threading.Thread(target=self._run, args=[work], daemon=True, name=name)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End all threads, and let go of the database."""
        self._ended.set()
        self._labels_moved.set()
        self._new_items.set()
        self.answerer.stop()
        self.hub.close()
        for thread in self._threads:
            thread.join(timeout=10)
        if self._calmed is not None:
            self._calmed.restore_original_limits()
        self.store.close()

    # What is done.

    def do(self, action: Callable[[Store], Done], looked_at: Sequence[int] | None = None) -> Done:
        """Change the store, and tell all pages."""
        done = action(self.store)
        self.answerer.look_at(looked_at)
        with suppress(StoreAway):  # it is done: what watches the store will tell of it
            self.sync()  # and wake it: before, there would be nothing new
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
            snapshot = self.store.since(self.labels.revision)
            if snapshot.revision == self.labels.revision:
                return
            self.labels.take(snapshot)
            self.hub.tell("changes", page_data.changes(self.catalogue, snapshot))
        self.answerer.wake()
        self._labels_moved.set()

    # What is told.

    def progress(self) -> dict[str, Any]:
        """Return how far the encoding is, and what is wrong with files."""
        return page_data.progress(self.vectors, self.labels, self.changed)

    def next(self, count: int) -> list[int]:
        """Return what to label next."""
        named = self.labels.labelled()
        known = self.vectors.known()
        done = np.array(sorted({*named.places, *named.aside}), dtype=np.int64)
        open_places = known[~np.isin(known, done)]
        if not len(open_places):
            return []
        answered = self.answers.at(open_places)
        doubt = None if (answered.class_ids[:, 0] == NONE).any() else doubts(answered.probabilities)
        labelled = self.vectors.at(known[np.isin(known, done)])
        chosen = suggest(self.vectors.at(open_places), doubt, labelled, count, seed=len(done))
        return [int(place) for place in open_places[chosen]]

    def results(self) -> Results:
        """Return all labels and answers, for files as they are at this moment."""
        self.look_at_files()
        return self._results.get()

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
        try:
            self.store.label_by_name({keys[place]: name for place, name in given.items()})
        except InvalidInput as error:
            raise InvalidInput(
                f"the labels of {shown(self.catalogue.source)} cannot be classes of a studio",
                got=f"{error.wrong}, {error.got}",
                allowed=error.allowed,
                remedy="Name the column of the labels with --label-column; one that is not there"
                " is begun without labels.",
            ) from error

    def _encode(self) -> None:
        def more() -> None:
            self.hub.tell("progress", self.progress())
            self.answerer.wake()

        torch.set_num_threads(self._cores)  # threads that answer have fewer, and would pass it on
        while not self._ended.is_set():
            labelled = self.labels.labelled().places
            self.vectors.encode_all(labelled, on_more=more, is_over=self._ended.is_set)
            self._new_items.wait()
            self._new_items.clear()

    def _watch(self) -> None:
        away = False
        while not self._ended.wait(POLL_SECONDS):
            try:
                self.sync()
            except StoreAway as error:  # it may come back: pages are told once, and then that
                if not away:
                    self.hub.tell("trouble", str(error))
                away = True
            else:
                if away:
                    self.hub.tell("notice", "The database of the labels answers again.")
                away = False
            self.look_at_files()

    def look_at_files(self) -> None:
        """Take notice of files that have vanished or changed, or are new."""
        with self._look_lock:
            if self.watch.folders_changed():
                self._take_in_new()
            seen = self.watch.look()
            if not seen:
                return
            self.vectors.forget(seen.vanished, GONE)
            self.vectors.encode_again(seen.changed)
            self.changed |= set(seen.changed)
        self.answerer.wake()
        self.hub.tell("progress", self.progress())

    def _take_in_new(self) -> None:
        """Show files that are new, and let them be encoded; those that are back have labels."""
        with self._sync_lock:
            new = self.catalogue.take_in_new()
            if not new:
                return
            self.vectors.grow()
            self.answers.grow(len(self.catalogue))
            back = self.labels.find_back()
            self.hub.tell("items", page_data.new_items(self.catalogue, new))
            self.hub.tell("changes", page_data.changes(self.catalogue, back))
        self.watch.follow(new)
        self._new_items.set()

    def _tell_answers(self, answered: Answered) -> None:
        self.hub.tell("answers", page_data.answers(answered))

    def _tell_novelty(self, places: Places, novelty: NDArray[np.float64]) -> None:
        self.hub.tell("novelty", page_data.novelty(places, novelty))

    def _answered(self, _named: Labelled) -> None:
        self.hub.tell("rest", {"revision": self.labels.revision})

    def _estimate(self) -> None:
        step_back()  # answers are waited for, estimates are not
        while not self._ended.is_set():
            self._labels_moved.wait()
            self._labels_moved.clear()
            if self._ended.wait(QUIET_SECONDS) or self._labels_moved.is_set():
                continue
            try:
                self.estimated = estimate(
                    self.vectors,
                    self.labels.labelled(),
                    device=self.device,
                    is_over=self._labels_moved.is_set,
                )
            except Superseded:
                continue
            self.hub.tell("estimate", page_data.estimated(self.estimated))
