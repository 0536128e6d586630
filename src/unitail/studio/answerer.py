"""Answers for all items after each change, what somebody looks at first.

They are isolated: an answer depends on the labels and that item alone. So items that are encoded
later change no answer, the page may be answered before the rest, and the cost grows only with the
number of items. Joint answers take ten times as long (results/studio_latency.md), too long to wait
for after each label. They are in single precision, which moves probabilities by about
1e-5 and takes half the time, and from vectors in the span of the labelled ones (`span.py`), which
saves about a third of that. Two threads answer side by side, a chunk each: most of what they do
leaves Python to the other. One of them begins with what is looked at.

Once nobody has changed anything for a moment, all is answered again with a pool: some items without
labels are read beside the labelled ones, which is worth some points where labels are few
(results/with_pool.md) and takes three times as long. Threads that let all others go first do that,
so that a new label waits for none of it. Exports rest on the same pool.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.errors import CannotSolve
from unitail.studio.background import share_behind, share_cores
from unitail.studio.fitted import NO_POOL, Fitted, Pool, Support, pool_of
from unitail.studio.latest import (
    NONE,
    Answered,
    Labelled,
    Labels,
    LatestAnswers,
    Places,
    in_chunks,
)
from unitail.studio.span import Spanned
from unitail.studio.vectors import Vectors

CHUNK = 512
"""Items that are answered at once; after each, somebody may have changed a label."""
AHEAD, AHEAD_CHUNK = 2048, 128
"""Items that are written in a span, at most, while the labelled ones are learned from."""
NOVELTY_CHUNK = 128
POOL_CHUNK = 128
"""The same with a pool, which takes longer."""
THREADS = 2
"""That answer side by side."""
QUIET_SECONDS = 0.8
"""Without a change, until answers are made with a pool."""
LOOK_SECONDS = 0.005
"""Between two looks whether there is something with a pool, or somebody has changed something."""


class Answerer:
    """Answers whatever is out of date, until it is told to stop."""

    def __init__(
        self,
        labels: Labels,
        vectors: Vectors,
        answers: LatestAnswers,
        *,
        device: str = "auto",
        on_answers: Callable[[Answered], None] = lambda _: None,
        on_novelty: Callable[[Places, NDArray[np.float64]], None] = lambda _places, _novelty: None,
        on_rest: Callable[[Labelled], None] = lambda _: None,
    ) -> None:
        self._labels, self._vectors, self._answers = labels, vectors, answers
        self._device, self._on_rest = device, on_rest
        self._on_answers, self._on_novelty = on_answers, on_novelty
        self._wake, self._ended = threading.Event(), False
        self._looked_at: tuple[int, ...] = ()
        self._said: tuple[int, ...] = ()
        """What has a label, or belongs to no class."""
        self._support: Support | None = None
        self._fitted: Fitted | None = None
        self._turn = NONE
        self._read: tuple[int, int] | None = None
        self._spans: list[Spanned] = []
        self._pool = NO_POOL
        """What was read beside the labelled items of `_support`, if anything was."""
        self._background = ThreadPoolExecutor(THREADS, "studio pool", initializer=share_behind)

    def look_at(self, places: Sequence[int] | None) -> None:
        """Say what somebody looks at, if that is known: it will be answered first."""
        self._looked_at = self._looked_at if places is None else tuple(places)

    def wake(self) -> None:
        """Say that labels or vectors have changed."""
        self._wake.set()

    def shares(self, place: int) -> dict[int, float]:
        """Return by place what part labelled items have in the answer to another item.

        Nothing where that is not known: of very many labels, or before there are two classes.
        """
        fitted, known = self._fitted, self._vectors.known()
        if fitted is None or place in fitted.places or place not in known:
            return {}
        try:
            return fitted.shares(self._vectors.at(np.array([place])))
        except CannotSolve:
            return {}

    def stop(self) -> None:
        """End `run`."""
        self._ended = True
        self._wake.set()
        self._background.shutdown(wait=False, cancel_futures=True)

    def run(self) -> None:
        """Answer, and wait for the next change."""
        share_cores()
        while not self._ended:
            self._wake.wait()
            self._wake.clear()
            self.answer_all()
            if not self._wake.wait(QUIET_SECONDS):
                self.refine()

    def refine(self) -> None:
        """Answer all again with a pool, if there is another than before; a change begins anew.

        What has changed since all was answered comes first, and is left to `answer_all`.
        """
        if self._read != self._now() or not self._vectors.progress.is_over:
            return
        if self._support is None or self._fitted is None:
            return
        places = pool_of(self._vectors.known(), self._labels.labelled())
        pool = (tuple(places.tolist()), tuple(self._vectors.versions(places).tolist()))
        if pool == self._pool:
            return
        support = self._support
        learning = self._background.submit(self._learned, support, pool)
        if self._done({learning}):
            self._take(learning.result(), support, pool)
            self.answer_all()

    def answer_all(self) -> None:
        """Answer all that is out of date, chunk by chunk; a change in between begins anew.

        How novel items are comes last: it takes as long as a third of the answers.
        """
        while not self._ended:
            self._read_labels()
            known = self._vectors.known()
            places = self._answers.stale(known, self._vectors.versions(known), self._turn)
            if len(places):
                self._answer_some(places)
                continue
            places = self._answers.without_novelty(known)
            if not len(places):
                self._on_rest(self._labels.labelled())
                return
            self._tell_novelty(places[:NOVELTY_CHUNK])

    def _answer_some(self, places: Places) -> None:
        """Answer all, what is looked at first; then in chunks of equal size, by two threads.

        What has a label comes last: the page shows its label.
        """
        rest = places[~np.isin(places, self._said)]
        places = rest if len(rest) else places
        size = POOL_CHUNK if self._pool[0] else CHUNK
        looked_at = np.array(self._looked_at if len(rest) else (), dtype=np.int64)
        first = in_chunks(places[np.isin(places, looked_at)], size, THREADS)
        # Wherever somebody looks, most chunks stay the same, and what is kept of them counts.
        chunks = [each[~np.isin(each, looked_at)] for each in in_chunks(places, size, THREADS)]
        waiting = deque([*first, *(each for each in chunks if len(each))])
        if self._pool[0]:
            self._answer_behind_all(waiting)
            return
        with ThreadPoolExecutor(1, initializer=share_cores) as other:
            beside = other.submit(self._answer_in_turn, waiting)
            self._answer_in_turn(waiting)
            beside.result()

    def _answer_in_turn(self, waiting: deque[Places]) -> None:
        """Answer what waits, the first first, until somebody changes something."""
        while not self._is_over():
            try:
                places = waiting.popleft()
            except IndexError:
                return
            self._tell(self._answer(places, self._fitted, self._turn))

    def _answer_behind_all(self, waiting: deque[Places]) -> None:
        """Do the same in the background; what is under way when somebody changes something is lost.

        Nothing of it is told later: only this thread tells.
        """
        running: set[Future[Answered]] = set()
        while waiting or running:
            while waiting and len(running) < THREADS:
                given = waiting.popleft(), self._fitted, self._turn
                running.add(self._background.submit(self._answer, *given))
            done = self._done(running)
            if not done:
                return
            for each in done:
                self._tell(each.result())
            running -= done

    def _done(self, running: set[Future[Any]]) -> set[Future[Any]]:
        """Wait for some of what runs in the background; for none if somebody changes something."""
        while not self._is_over():
            done = wait(running, LOOK_SECONDS, return_when=FIRST_COMPLETED).done
            if done:
                return done
        for each in running:
            each.cancel()
        return set()

    def _is_over(self) -> bool:
        """Tell whether nobody waits any more for what is being done."""
        return self._ended or self._read != self._now()

    def _tell(self, answered: Answered) -> None:
        self._answers.put(answered)
        self._on_answers(answered)

    def _now(self) -> tuple[int, int]:
        """Return what counts up whenever labels or vectors change."""
        return self._labels.revision, self._vectors.changes

    def _read_labels(self) -> None:
        """Fit again if labels have changed, or the vector of a labelled item has."""
        now = self._now()
        if now == self._read:
            return
        self._read = now
        named = self._labels.labelled()
        self._said = (*named.places, *named.aside)
        known = set(self._vectors.known().tolist())
        pairs = [pair for pair in zip(*named.support, strict=True) if pair[0] in known]
        places = tuple(place for place, _ in pairs)
        versions = self._vectors.versions(np.array(places, dtype=np.int64))
        support = (places, tuple(each for _, each in pairs), tuple(versions.tolist()))
        if support != self._support:
            self._take(self._learned(support, NO_POOL), support, NO_POOL)

    def _learned(self, support: Support, pool: Pool) -> Fitted | None:
        """Learn, and write items in the span of what is learned from meanwhile."""
        learned, ahead = threading.Event(), []
        with ThreadPoolExecutor(1, initializer=share_cores) as other:

            def begin(span: Spanned) -> None:
                ahead.append(other.submit(self._write_ahead, span, learned.is_set))

            try:
                fitted = Fitted.of(
                    self._vectors,
                    support,
                    pool,
                    device=self._device,
                    kept=self._spans,
                    on_span=begin,
                )
            finally:
                learned.set()
        for each in ahead:
            each.result()  # what failed would fail again when items are answered: it is told now
        return fitted

    def _take(self, fitted: Fitted | None, support: Support, pool: Pool) -> None:
        """Answer by this from now on."""
        if fitted is not None and fitted.spanned is not None:
            others = [each for each in self._spans if each is not fitted.spanned]
            self._spans = [fitted.spanned, *others[:1]]  # with a pool and without
        self._fitted, self._support, self._pool = fitted, support, pool
        self._turn += 1

    def _write_ahead(self, span: Spanned, is_over: Callable[[], bool]) -> None:
        """Write items in a span, in the order of answers, until it is time to answer."""
        known = self._vectors.known()
        later = 2 * np.isin(known, self._said) + ~np.isin(known, self._looked_at)
        places = known[np.argsort(later, kind="stable")][:AHEAD]
        for start in range(0, len(places), AHEAD_CHUNK):
            if is_over():
                return
            chunk = places[start : start + AHEAD_CHUNK]
            span.at(chunk, self._vectors.versions(chunk), self._vectors.at)

    def _answer(self, places: Places, fitted: Fitted | None, turn: int) -> Answered:
        count, versions = len(places), self._vectors.versions(places)  # before they are read
        if fitted is None:
            nothing = np.full((count, 2), NONE, dtype=np.int64)
            zeros = np.zeros((count, 2))
            return Answered(turn, places, versions, nothing, zeros, zeros[:, 0])
        probabilities = fitted.probabilities(places, versions, self._vectors.at)
        best = np.argsort(-probabilities, axis=1, kind="stable")[:, :2]
        return Answered(
            turn,
            places,
            versions,
            np.asarray(fitted.classifier.classes_[best], dtype=np.int64),
            np.take_along_axis(probabilities, best, axis=1),
        )

    def _tell_novelty(self, places: Places) -> None:
        assert self._fitted is not None
        novelty = self._fitted.novelty(self._vectors.at(places))
        self._answers.put_novelty(places, novelty)
        self._on_novelty(places, novelty)
