"""Answers all items after each change, those on the screen first.

Answers are isolated: each depends only on the labels and on its own item. So items that are encoded
later change no answer, the items on the screen can be answered before the others, and the cost is
linear in the number of items. Joint answers take ten times as long (results/studio_latency.md), too
long to wait for after each label. Answers are computed in single precision, which moves
probabilities by about 1e-5 and takes half the time, and from vectors in the span of the labelled
ones (`projection.py`), which saves about another third. Two threads answer in parallel, one chunk
each: they release Python's global lock most of the time. The items on the screen come first.

These answers read at most `MAX_IMMEDIATE` labels, since their time grows with each: some of every
class, and the newest ones that users gave. When nothing has changed for a moment, all items are
answered again from all labels and with a pool: some unlabelled items are read beside the labelled
ones, which improves the accuracy by some points where labels are few (results/with_pool.md) and
takes three times as long. This is done by threads of low priority, so that a new label never waits
for it. Exports use all labels and the same pool.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.errors import CannotSolve
from unitail.studio.background import share_cores, share_cores_in_background
from unitail.studio.fitted import (
    MAX_IMMEDIATE,
    NO_POOL,
    FittedLabels,
    Pool,
    SupportPlaces,
    choose_pool,
)
from unitail.studio.projection import ProjectionCache
from unitail.studio.state import (
    NONE,
    Answered,
    Labelled,
    Labels,
    LatestAnswers,
    Places,
    in_chunks,
)
from unitail.studio.vectors import ItemVectors

CHUNK = 512
"""Items answered at a time; after each chunk, changes of labels are noticed."""
AHEAD, AHEAD_CHUNK = 2048, 128
"""Largest number of items, and of items at a time, projected onto a span during the fit."""
NOVELTY_CHUNK = 128
REFINED_CHUNK = 128
"""The same for answers from all labels and with a pool, which take longer."""
THREADS = 2
"""Threads that answer in parallel."""
QUIET_SECONDS = 0.8
"""How long nothing must change before answers are computed with a pool."""
LOOK_SECONDS = 0.005
"""Interval between checks for finished background work and for changes."""


class Answerer:
    """Answers all items whose answers are out of date, until it is stopped."""

    def __init__(
        self,
        labels: Labels,
        vectors: ItemVectors,
        answers: LatestAnswers,
        *,
        device: str = "auto",
        on_answers: Callable[[Answered], None] = lambda _: None,
        on_novelty: Callable[[Places, NDArray[np.float64]], None] = lambda _places, _novelty: None,
        on_settled: Callable[[Labelled], None] = lambda _: None,
        on_refined: Callable[[], None] = lambda: None,
    ) -> None:
        self._labels, self._vectors, self._answers = labels, vectors, answers
        self._device, self._on_settled, self._on_refined = device, on_settled, on_refined
        self._on_answers, self._on_novelty = on_answers, on_novelty
        self._wake, self._ended = threading.Event(), False
        self._looked_at: tuple[int, ...] = ()
        self._labelled: tuple[int, ...] = ()
        """Places that have a label or are set aside."""
        self._all_labels: SupportPlaces | None = None
        """All labelled items that have a vector, when labels were last read."""
        self._read: tuple[SupportPlaces, Pool] | None = None
        """What the current fit has read: all labelled items, or some of very many; and its pool."""
        self._fitted: FittedLabels | None = None
        self._generation = NONE
        self._read_state: tuple[int, int] | None = None
        self._caches: list[ProjectionCache] = []
        self._is_refined = False
        """Whether the current fit has read all that it may read, so that nobody waits for it."""
        self._background = ThreadPoolExecutor(
            THREADS, "studio pool", initializer=share_cores_in_background
        )

    def look_at(self, places: Sequence[int]) -> None:
        """Set the places on the screen, which are answered first."""
        self._looked_at = tuple(places)

    def wake(self) -> None:
        """Start answering, after labels or vectors have changed."""
        self._wake.set()

    def shares(self, place: int) -> dict[int, float]:
        """Return the share of each labelled item, by place, in the answer to another item.

        Empty where shares are unknown: with very many labels, or before there are two classes.
        """
        fitted, encoded = self._fitted, self._vectors.encoded_places()
        if fitted is None or place in fitted.places or place not in encoded:
            return {}
        try:
            return fitted.shares(self._vectors.at(np.array([place])))
        except CannotSolve:
            return {}

    def stop(self) -> None:
        """Make `run` return."""
        self._ended = True
        self._wake.set()
        self._background.shutdown(wait=False, cancel_futures=True)

    def run(self) -> None:
        """Answer after each change, until `stop` is called."""
        share_cores()
        while not self._ended:
            self._wake.wait()
            self._wake.clear()
            self.answer_all()
            if not self._wake.wait(QUIET_SECONDS):
                self.refine()

    def refine(self) -> None:
        """Answer all items again from all labels and with a pool, unless that has been done.

        Then, or at once while items are still being encoded, calls `on_refined`. Does nothing if
        anything has changed since the last answers: that is left to `answer_all`.
        """
        if self._read_state != self._state() or self._all_labels is None or self._fitted is None:
            return
        if self._vectors.progress.is_over and not self._refine(self._all_labels):
            return
        if self._read_state == self._state():
            self._on_refined()

    def _refine(self, support: SupportPlaces) -> bool:
        """Return whether all items have been answered from all labels and with a pool."""
        places = choose_pool(self._vectors.encoded_places(), self._labels.labelled())
        pool = (tuple(places.tolist()), tuple(self._vectors.versions(places).tolist()))
        if self._read != (support, pool):
            fitting = self._background.submit(self._fit, support, pool)
            if not self._wait_for_some({fitting}):
                return False
            self._use(fitting.result(), support, pool, is_refined=True)
            self.answer_all()
        return True

    def answer_all(self) -> None:
        """Answer all items that are out of date, chunk by chunk; start over after a change.

        Novelty is computed last, since it takes a third of the time of the answers.
        """
        while not self._ended:
            self._read_labels()
            encoded = self._vectors.encoded_places()
            versions = self._vectors.versions(encoded)
            places = self._answers.stale(encoded, versions, self._generation)
            if len(places):
                self._answer_some(places)
                continue
            places = self._answers.without_novelty(encoded)
            if not len(places):
                self._on_settled(self._labels.labelled())
                return
            self._update_novelty(places[:NOVELTY_CHUNK])

    def _answer_some(self, places: Places) -> None:
        """Answer items in chunks of equal size by two threads, those on the screen first.

        Labelled items come last, since the page shows their labels.
        """
        unlabelled = places[~np.isin(places, self._labelled)]
        places = unlabelled if len(unlabelled) else places
        size = REFINED_CHUNK if self._is_refined else CHUNK
        looked_at = np.array(self._looked_at if len(unlabelled) else (), dtype=np.int64)
        first = in_chunks(places[np.isin(places, looked_at)], size, THREADS)
        # Chunks of all places change little with the screen, so most cached relations stay valid.
        chunks = [each[~np.isin(each, looked_at)] for each in in_chunks(places, size, THREADS)]
        queue = deque([*first, *(each for each in chunks if len(each))])
        if self._is_refined:
            self._answer_in_background(queue)
            return
        with ThreadPoolExecutor(1, initializer=share_cores) as second_thread:
            answering = second_thread.submit(self._answer_queue, queue)
            self._answer_queue(queue)
            answering.result()

    def _answer_queue(self, queue: deque[Places]) -> None:
        """Answer chunks from the front of the queue until it is empty or labels change."""
        while not self._is_outdated():
            try:
                places = queue.popleft()
            except IndexError:
                return
            self._publish(self._answer(places, self._fitted, self._generation))

    def _answer_in_background(self, queue: deque[Places]) -> None:
        """Answer the chunks of a queue by background threads, until labels change.

        Answers under way at a change are dropped: only this thread publishes answers.
        """
        running: set[Future[Answered]] = set()
        while queue or running:
            while queue and len(running) < THREADS:
                args = queue.popleft(), self._fitted, self._generation
                running.add(self._background.submit(self._answer, *args))
            done = self._wait_for_some(running)
            if not done:
                return
            for future in done:
                self._publish(future.result())
            running -= done

    def _wait_for_some(self, running: set[Future[Any]]) -> set[Future[Any]]:
        """Wait until some futures are done, and return them; none if anything changes before."""
        while not self._is_outdated():
            done = wait(running, LOOK_SECONDS, return_when=FIRST_COMPLETED).done
            if done:
                return done
        for future in running:
            future.cancel()
        return set()

    def _is_outdated(self) -> bool:
        """Return whether labels or vectors have changed since, or `stop` was called."""
        return self._ended or self._read_state != self._state()

    def _publish(self, answered: Answered) -> None:
        self._answers.put(answered)
        self._on_answers(answered)

    def _state(self) -> tuple[int, int]:
        """Return two counters that increase whenever labels or vectors change."""
        return self._labels.revision, self._vectors.changes

    def _read_labels(self) -> None:
        """Fit again if labels or vectors of labelled items have changed."""
        state = self._state()
        if state == self._read_state:
            return
        self._read_state = state
        named = self._labels.labelled()
        self._labelled = (*named.places, *named.aside)
        all_labels = SupportPlaces.of(named, self._vectors)
        if all_labels != self._all_labels:
            self._all_labels = all_labels
            support = SupportPlaces.of(named, self._vectors, max_size=MAX_IMMEDIATE)
            self._use(self._fit(support, NO_POOL), support, NO_POOL, is_refined=False)

    def _fit(self, support: SupportPlaces, pool: Pool) -> FittedLabels | None:
        """Fit a classifier, and meanwhile project items onto the span of the labelled ones."""
        is_fitted, tasks = threading.Event(), []
        with ThreadPoolExecutor(1, initializer=share_cores) as second_thread:

            def cache_ahead(cached: ProjectionCache) -> None:
                tasks.append(second_thread.submit(self._cache_ahead, cached, is_fitted.is_set))

            try:
                fitted = FittedLabels.of(
                    self._vectors,
                    support,
                    pool,
                    device=self._device,
                    caches=self._caches,
                    on_projection=cache_ahead,
                )
            finally:
                is_fitted.set()
        for task in tasks:
            task.result()  # raises now what would fail again when the items are answered
        return fitted

    def _use(
        self, fitted: FittedLabels | None, support: SupportPlaces, pool: Pool, *, is_refined: bool
    ) -> None:
        """Use this fit for all answers from now on."""
        cache = None if fitted is None else fitted.cache
        if cache is not None:
            older = [each for each in self._caches if each is not cache]
            self._caches = [cache, *older[:1]]  # with a pool and without
        self._fitted, self._read, self._is_refined = fitted, (support, pool), is_refined
        self._generation += 1

    def _cache_ahead(self, cached: ProjectionCache, is_over: Callable[[], bool]) -> None:
        """Project items onto a span, in the order of answers, until the fit is done."""
        encoded = self._vectors.encoded_places()
        rank = 2 * np.isin(encoded, self._labelled) + ~np.isin(encoded, self._looked_at)
        places = encoded[np.argsort(rank, kind="stable")][:AHEAD]
        for start in range(0, len(places), AHEAD_CHUNK):
            if is_over():
                return
            chunk = places[start : start + AHEAD_CHUNK]
            cached.at(chunk, self._vectors.versions(chunk), self._vectors.at)

    def _answer(self, places: Places, fitted: FittedLabels | None, generation: int) -> Answered:
        count, versions = len(places), self._vectors.versions(places)  # before reading vectors
        if fitted is None:
            nothing = np.full((count, 2), NONE, dtype=np.int64)
            zeros = np.zeros((count, 2))
            return Answered(generation, places, versions, nothing, zeros, zeros[:, 0])
        probabilities = fitted.probabilities(places, versions, self._vectors.at)
        best = np.argsort(-probabilities, axis=1, kind="stable")[:, :2]
        return Answered(
            generation,
            places,
            versions,
            np.asarray(fitted.classifier.classes_[best], dtype=np.int64),
            np.take_along_axis(probabilities, best, axis=1),
        )

    def _update_novelty(self, places: Places) -> None:
        assert self._fitted is not None
        novelty = self._fitted.novelty(self._vectors.at(places))
        self._answers.put_novelty(places, novelty)
        self._on_novelty(places, novelty)
