"""A running studio: the items, their labels and answers, and the background threads."""

import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from unitail.studio.background import limit_numpy_threads, lower_priority
from unitail.studio.catalogue import Catalogue
from unitail.studio.estimate import Estimated, Superseded, estimate
from unitail.studio.exports import GONE, LatestResults, Results
from unitail.studio.media import Media
from unitail.studio.page_events import Hub
from unitail.studio.state import NONE, Answered, Labelled, Labels, LatestAnswers, Places
from unitail.studio.store import Store
from unitail.studio.stored_rows import ActionResult, Origin, StoreUnavailable
from unitail.studio.suggestions import doubts, suggest
from unitail.studio.vectors import ItemVectors
from unitail.studio.watch import TableState, Watch
from unitail.wording import numbered, shown

POLL_SECONDS = 1.0
"""Interval between checks of the files and of the database, which other processes may change."""


class Studio:
    """Everything the page shows and does."""

    def __init__(
        self,
        catalogue: Catalogue,
        store: Store,
        *,
        encoder: str | Encoder[Any] | None = None,
        cache: FeatureCache | None = None,
        device: str = "auto",
        notes: Iterable[str] = (),
        takes_table_labels: bool = True,
    ) -> None:
        self.catalogue, self.store, self.device = catalogue, store, device
        self.boot = secrets.token_hex(8)
        """Identifies this run: pages that were opened on another run reload everything."""
        self.hub, self.media = Hub(), Media(catalogue)
        self.labels, self.answers = Labels(catalogue), LatestAnswers(len(catalogue))
        self.vectors = ItemVectors(catalogue, encoder=encoder, cache=cache, device=device)
        self.watch = Watch(catalogue)
        self._results = LatestResults(catalogue, self.labels, self.vectors, device=device)
        self.answerer = Answerer(
            self.labels,
            self.vectors,
            self.answers,
            device=device,
            on_answers=self._send_answers,
            on_novelty=self._send_novelty,
            on_settled=self._send_settled,
            on_refined=self._answers_refined,
        )
        self.estimated: Estimated | None = None
        self._table_state = TableState.SAME
        self.trouble = ""
        """Why a background thread failed; empty while all of them run."""
        self._sync_lock, self._look_lock = threading.Lock(), threading.Lock()
        self._ended, self._may_estimate = threading.Event(), threading.Event()
        self._estimated_state: object = None
        """Labels and vectors of the last estimate."""
        self._items_added = threading.Event()
        self._threads: list[threading.Thread] = []
        self._numpy_limits: threadpool_limits | None = None
        self._cores = torch.get_num_threads()
        self.notes = (*notes, *(self._import_table_labels() if takes_table_labels else ()))
        """What the user should know about how the items and their labels were read."""
        self.labels.update(store.since())

    def start(self) -> None:
        """Start the background threads that encode, answer, watch and estimate."""
        self._numpy_limits = limit_numpy_threads()
        for work in (self._encode, self.answerer.run, self._watch, self._estimate):
            name = f"studio {work.__name__}"
            thread = threading.Thread(target=self._run, args=[work], daemon=True, name=name)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Stop all threads and close the database."""
        self._ended.set()
        self._may_estimate.set()
        self._items_added.set()
        self.answerer.stop()
        self.hub.close()
        for thread in self._threads:
            thread.join(timeout=10)
        if self._numpy_limits is not None:
            self._numpy_limits.restore_original_limits()
        self.store.close()

    # Changing labels and classes.

    def apply(
        self, action: Callable[[Store], ActionResult], looked_at: Sequence[int] | None = None
    ) -> ActionResult:
        """Run an action on the store, and send the change to all pages."""
        result = action(self.store)
        if looked_at is not None:
            self.answerer.look_at([place for place in looked_at if place < len(self.catalogue)])
        with suppress(StoreUnavailable):  # the action is stored; the watching thread syncs later
            self.sync()  # wakes the answerer, which must see the new labels
        return result

    def label(
        self,
        class_ids: Mapping[int, int | None],
        seen: Mapping[int, int],
        *,
        author: str,
        looked_at: Sequence[int] | None = None,
        origin: Origin = Origin.CHOSEN,
    ) -> ActionResult:
        """Label items, given by their places."""
        keys = self.catalogue.keys
        contents = {keys[place]: self.vectors.contents.get(place, "") for place in class_ids}

        excerpts = self._excerpts(class_ids)

        def action(store: Store) -> ActionResult:
            return store.label_each(
                {keys[place]: class_id for place, class_id in class_ids.items()},
                {keys[place]: version for place, version in seen.items()},
                author=author,
                contents=contents,
                excerpts=excerpts,
                origin=origin,
            )

        return self.apply(action, looked_at)

    def _excerpts(self, places: Iterable[int]) -> dict[str, str | None]:
        """Return what is kept with labels to show them when their items are gone, by key."""
        return {self.catalogue.keys[place]: self.catalogue.excerpt(place) for place in places}

    def use_folders(self, author: str) -> ActionResult:
        """Make each subfolder a class, and label the files in it."""
        folders = self.catalogue.folder_classes()
        if not folders:
            raise InvalidInput(
                "the items are not in folders",
                got=shown(self.catalogue.source),
                allowed="a folder with a few subfolders that hold all files",
            )
        keys = self.catalogue.keys
        names = {keys[place]: name for name, places in folders.items() for place in places}
        return self.apply(lambda store: store.label_by_name(names, author=author))

    def sync(self) -> None:
        """Load what is new in the store, send it to all pages, and wake the threads."""
        with self._sync_lock:
            snapshot = self.store.since(self.labels.revision)
            if snapshot.revision == self.labels.revision:
                return
            self.labels.update(snapshot)
            self.hub.publish("changes", page_data.changes(self.catalogue, snapshot))
        self.answerer.wake()

    # What the page shows.

    def progress(self) -> dict[str, Any]:
        """Return the encoding progress, and which files are unreadable, changed or missing."""
        return page_data.progress(self.catalogue, self.vectors, self.labels, self._table_state)

    def next(self, count: int, skip: Collection[int] = ()) -> list[int]:
        """Return the places of the items to label next, without `skip` if there are enough."""
        named = self.labels.labelled()
        encoded = self.vectors.encoded_places()
        done = np.array(sorted({*named.places, *named.aside}), dtype=np.int64)
        open_places = encoded[~np.isin(encoded, done)]
        remaining = open_places[~np.isin(open_places, list(skip))]
        open_places = remaining if len(remaining) >= min(count, len(open_places)) else open_places
        if not len(open_places):
            return []
        answered = self.answers.at(open_places)
        doubt = None if (answered.class_ids[:, 0] == NONE).any() else doubts(answered.probabilities)
        labelled = self.vectors.at(encoded[np.isin(encoded, done)])
        chosen = suggest(self.vectors.at(open_places), doubt, labelled, count, seed=len(done))
        return [int(place) for place in open_places[chosen]]

    def results(self) -> Results:
        """Return all labels and answers, with the files as they are now."""
        self.check_files()
        return self._results.get()

    @property
    def sorted_folder(self) -> Path:
        """The folder beside the source into which the page sorts the items."""
        source = self.catalogue.source.resolve()
        return source.with_name(f"{source.stem if source.is_file() else source.name}-sorted")

    # What the threads do.

    def _run(self, work: Callable[[], None]) -> None:
        """Run a thread's work, and report an error to all pages before raising it."""
        try:
            work()
        except Exception as error:
            if not self._ended.is_set():
                self.trouble = f"{type(error).__name__}: {error}"
                self.hub.publish("trouble", self.trouble)
                raise

    def _import_table_labels(self) -> list[str]:
        """Import the labels in the table of items that never had one here; return a note on them.

        The first import needs no note. What was labelled here, or had its label removed, stays.
        """
        before = self.store.since()
        known = {row.item for row in before.labels}
        keys, table_labels = self.catalogue.keys, self.catalogue.table_labels
        new = {place: name for place, name in table_labels.items() if keys[place] not in known}
        if not new:
            return []
        source, count = shown(self.catalogue.source), numbered(len(new), "label")
        try:
            names = {keys[place]: name for place, name in new.items()}
            self.store.label_by_name(names, excerpts=self._excerpts(new))
        except InvalidInput as error:
            if before.labels:
                return [f"Not used: {count}, added to {source} later: {str(error).rstrip('.')}"]
            raise InvalidInput(
                f"the labels of {source} cannot be classes of a studio",
                got=f"{error.wrong}, {error.got}",
                allowed=error.allowed,
                remedy="Correct them, or name another column of labels with --label-column.",
            ) from error
        return [f"Used as well: {count}, added to {source} later"] if known else []

    def _encode(self) -> None:
        def on_more() -> None:
            self.hub.publish("progress", self.progress())
            self.answerer.wake()

        torch.set_num_threads(self._cores)  # not the smaller number of the answering threads
        while not self._ended.is_set():
            labelled = self.labels.labelled().places
            self.vectors.encode_all(labelled, on_more=on_more, is_over=self._ended.is_set)
            self.answerer.wake()  # the last items have vectors now: answer with a pool, estimate
            self._items_added.wait()
            self._items_added.clear()

    def _watch(self) -> None:
        is_away = False
        while not self._ended.wait(POLL_SECONDS):
            try:
                self.sync()
            except StoreUnavailable as error:  # reported once, and again when it is back
                if not is_away:
                    self.hub.publish("trouble", str(error))
                is_away = True
            else:
                if is_away:
                    self.hub.publish("notice", "The label database is available again.")
                is_away = False
            self.check_files()

    def check_files(self) -> None:
        """Look for files that have vanished, changed or been added, and update their vectors."""
        with self._look_lock:
            if self.watch.folders_changed():
                self._add_new_files()
            self._check_table()
            changes = self.watch.scan()
            if not changes:
                return
            self.vectors.forget(changes.vanished, GONE)
            self.vectors.encode_again(changes.changed)
        self.answerer.wake()
        self.hub.publish("progress", self.progress())

    def _check_table(self) -> None:
        """Report a table that has changed or vanished, once each time."""
        state = self.watch.table_state()
        if state == self._table_state:
            return
        self._table_state = state
        progress = self.progress()
        self.hub.publish("progress", progress)
        if progress["source"]:
            self.hub.publish("notice", progress["source"])

    def _add_new_files(self) -> None:
        """Add new files, and queue them for encoding; files that are back keep their labels."""
        with self._sync_lock:
            new = self.catalogue.add_new_files()
            if not new:
                return
            self.vectors.grow()
            self.answers.grow(len(self.catalogue))
            reattached = self.labels.reattach()
            self.hub.publish("items", page_data.new_items(self.catalogue, new))
            self.hub.publish("changes", page_data.changes(self.catalogue, reattached))
        self.watch.follow(new)
        self._items_added.set()

    def _send_answers(self, answered: Answered) -> None:
        self.hub.publish("answers", page_data.answers(answered))

    def _send_novelty(self, places: Places, novelty: NDArray[np.float64]) -> None:
        self.hub.publish("novelty", page_data.novelty(places, novelty))

    def _send_settled(self, _named: Labelled) -> None:
        self.hub.publish("rest", {"revision": self.labels.revision})

    def _open_probabilities(self) -> NDArray[np.float64]:
        """Return the probabilities of the open answers."""
        named, encoded = self.labels.labelled(), self.vectors.encoded_places()
        places = encoded[~np.isin(encoded, [*named.places, *named.aside])]
        answered = self.answers.at(places)
        is_answered = answered.class_ids[:, 0] != NONE
        probabilities: NDArray[np.float64] = answered.probabilities[is_answered, 0]
        return probabilities

    def _answers_refined(self) -> None:
        """Estimate the accuracy of the refined answers: earlier ones are less accurate."""
        progress = self.vectors.progress
        state = self.labels.revision, self.vectors.changes if progress.is_over else None
        if state != self._estimated_state:
            self._estimated_state = state
            self._may_estimate.set()

    def _estimate(self) -> None:
        lower_priority()  # users wait for answers, not for estimates
        while not self._ended.is_set():
            self._may_estimate.wait()
            self._may_estimate.clear()
            named = self.labels.labelled()

            def is_over(revision: int = named.revision) -> bool:
                return self._ended.is_set() or self.labels.revision != revision

            with suppress(Superseded):  # the answers to the new labels are estimated next
                probabilities = self._open_probabilities()
                self.estimated = estimate(
                    self.vectors, named, probabilities, device=self.device, is_over=is_over
                )
                self.hub.publish("estimate", page_data.estimated(self.estimated))
