"""Answers for all items after each change, what somebody looks at first.

They are isolated: an answer depends on the labels and that item alone. So items that are encoded
later change no answer, the page may be answered before the rest, and the cost grows only with the
number of items. Joint answers take ten times as long (results/studio_latency.md), too long to wait
for after each label. They are in single precision, which moves probabilities by about
1e-5 and takes half the time.

An answer depends only on lengths and on inner products with labelled vectors. n of these span n
dimensions, so every vector is written in a basis of theirs, with the length of what is left as one
coordinate more: the same answers from n + 1 coordinates in place of a thousand. Tables keep their
columns: these have steps and weights of their own, or parts that each have a say.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unitail.estimator.classifier import TailClassifier
from unitail.estimator.scaling import Scale
from unitail.studio.labels import Labelled, Labels
from unitail.studio.latest_answers import NONE, Answered, LatestAnswers, Places
from unitail.studio.vectors import Vectors
from unitail.workflows.predict import make_classifier

CHUNK = 512
"""Items that are answered at once; after each, somebody may have changed a label."""
NOVELTY_CHUNK = 2048

Support = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Labelled places, their class ids, and the versions of their vectors."""


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
        self._support: Support | None = None
        self._fitted: Fitted | None = None
        self._turn = NONE
        self._read: tuple[int, int] | None = None

    def wake(self, looked_at: Sequence[int] | None = None) -> None:
        """Say that labels or vectors have changed, and what somebody looks at."""
        if looked_at is not None:
            self._looked_at = tuple(looked_at)
        self._wake.set()

    def stop(self) -> None:
        """End `run`."""
        self._ended = True
        self._wake.set()

    def run(self) -> None:
        """Answer, and wait for the next change."""
        while not self._ended:
            self._wake.wait()
            self._wake.clear()
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
                answered = self._answer(self._next(places))
                self._answers.put(answered)
                self._on_answers(answered)
                continue
            places = self._answers.without_novelty(known)
            if not len(places):
                self._on_rest(self._labels.labelled())
                return
            self._tell_novelty(places[:NOVELTY_CHUNK])

    def _next(self, places: Places) -> Places:
        """Choose a chunk: what is looked at, or else the first ones."""
        seen = places[np.isin(places, self._looked_at)]
        return seen if len(seen) else places[:CHUNK]

    def _read_labels(self) -> None:
        """Fit again if labels have changed, or the vector of a labelled item has."""
        now = (self._labels.revision, self._vectors.changes)
        if now == self._read:
            return
        self._read = now
        named = self._labels.labelled()
        known = set(self._vectors.known().tolist())
        pairs = [pair for pair in zip(*named.support, strict=True) if pair[0] in known]
        places = tuple(place for place, _ in pairs)
        versions = self._vectors.versions(np.array(places, dtype=np.int64))
        support = (places, tuple(each for _, each in pairs), tuple(versions.tolist()))
        if support != self._support:
            self._fitted = Fitted.of(self._vectors, support, self._device)
            self._support, self._turn = support, self._turn + 1

    def _answer(self, places: Places) -> Answered:
        count, versions = len(places), self._vectors.versions(places)  # before they are read
        if self._fitted is None:
            nothing = np.full((count, 2), NONE, dtype=np.int64)
            zeros = np.zeros((count, 2))
            return Answered(self._turn, places, versions, nothing, zeros, zeros[:, 0])
        classifier = self._fitted.classifier
        rows = self._fitted.span(self._vectors.at(places))
        probabilities = classifier.predict_proba(rows)
        best = np.argsort(-probabilities, axis=1, kind="stable")[:, :2]
        return Answered(
            self._turn,
            places,
            versions,
            np.asarray(classifier.classes_[best], dtype=np.int64),
            np.take_along_axis(probabilities, best, axis=1),
        )

    def _tell_novelty(self, places: Places) -> None:
        assert self._fitted is not None
        rows = self._fitted.span(self._vectors.at(places))
        novelty = self._fitted.classifier.novelty(rows)
        self._answers.put_novelty(places, novelty)
        self._on_novelty(places, novelty)


@dataclass(frozen=True, eq=False)
class Span:
    """Vectors in a basis of what the labelled ones span, and the length of what is left."""

    basis: NDArray[np.float32] | None
    """(d, r) with orthonormal columns; None where that would save nothing."""

    @classmethod
    def of(cls, labelled: NDArray[np.float32]) -> "Span":
        """Find the basis of labelled vectors (n, d)."""
        if len(labelled) + 1 >= labelled.shape[1]:
            return cls(None)
        return cls(np.linalg.qr(labelled.T.astype(np.float64))[0].astype(np.float32))

    def __call__(self, rows: NDArray[np.float32], *, labelled: bool = False) -> NDArray[np.float32]:
        """Return rows (m, r + 1) with the same lengths and the same products with labelled ones.

        Of the labelled ones themselves nothing is left: rounding must not say otherwise.
        """
        if self.basis is None:
            return rows
        inside = rows @ self.basis
        left = np.zeros(len(rows), np.float32)
        if not labelled:
            squares = (rows**2).sum(axis=1) - (inside**2).sum(axis=1)
            left = np.sqrt(np.maximum(squares, 0))
        return np.concatenate([inside, left[:, None]], axis=1)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A classifier of class ids, and how vectors enter it."""

    classifier: TailClassifier
    span: Span

    @classmethod
    def of(cls, vectors: Vectors, support: Support, device: str) -> "Fitted | None":
        """Fit; None if there are not two classes yet."""
        places, class_ids, _ = support
        if len(set(class_ids)) < 2:
            return None
        labelled = vectors.at(np.array(places))
        own = make_classifier(encoder=vectors.chosen, device=device).set_params(precision="single")
        whole = Scale(own.scale).views or own.parts is not None
        span = Span(None) if whole else Span.of(labelled)
        return cls(own.fit(span(labelled, labelled=True), np.array(class_ids)), span)
