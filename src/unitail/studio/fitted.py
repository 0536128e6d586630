"""What the studio has learned from the labels: a classifier, and how items enter it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unitail.estimator.classifier import TailClassifier
from unitail.estimator.novelty import Novelty
from unitail.estimator.rows import Rows
from unitail.estimator.settings import draw_seed
from unitail.studio.latest import Labelled, Places
from unitail.studio.span import Spanned, sharing, spanned
from unitail.studio.vectors import Vectors
from unitail.workflows.predict import make_classifier

POOL, MIN_POOL = 200, 20
"""Items without labels that are read beside the labelled ones, at most and at least."""
MAX_POOLED = 500
"""Labels: with more, a pool helps little, and takes long."""

Support = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Labelled places, their class ids, and the versions of their vectors."""
Pool = tuple[tuple[int, ...], tuple[int, ...]]
"""Places of items that are read beside the labelled ones, and the versions of their vectors."""
NO_POOL: Pool = ((), ())


@dataclass(frozen=True, eq=False)
class Fitted:
    """A classifier of class ids, how vectors enter it, and what is novel to it."""

    classifier: TailClassifier
    spanned: Spanned | None
    """None: they enter as they are, and nothing of them is kept."""
    places: tuple[int, ...]
    """Of the labelled items."""
    labelled: NDArray[np.float32]
    class_ids: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        vectors: Vectors,
        support: Support,
        pool: Pool,
        *,
        device: str,
        kept: Sequence[Spanned],
        on_span: Callable[[Spanned], None],
    ) -> Self | None:
        """Fit a classifier of class ids; None if there are not two classes yet.

        `on_span` is told how items will be written for it, as soon as that is known.
        """
        places, class_ids, versions = support
        if len(set(class_ids)) < 2:
            return None
        own = make_classifier(encoder=vectors.chosen, device=device).set_params(precision="single")
        key = (places, versions, pool)
        seen = vectors.at(np.array([*places, *pool[0]]))
        labelled, labels = seen[: len(places)], np.array(class_ids)
        span = spanned(vectors.chosen, seen, key, kept, pooled=bool(pool[0]))
        if span is not None:
            if span.span is not None:
                on_span(span)
            own, seen = sharing(own, span), span.labelled(seen)
        rows, more = seen[: len(places)], seen[len(places) :]
        own.fit(rows, labels, pool=more if len(more) else None)
        return cls(own, span, places, labelled, labels)

    def probabilities(
        self, places: Places, versions: Places, read: Callable[[Places], NDArray[np.float32]]
    ) -> NDArray[np.float64]:
        """Answer the items at some places, whose vectors can be read: (m, K)."""
        if self.spanned is None:
            return self.classifier.predict_proba(read(places))
        return self.classifier.predict_proba(self.spanned.at(places, versions, read))

    def shares(self, rows: NDArray[np.float32]) -> dict[int, float]:
        """Say what part each labelled item has in the answer to one vector, (1, d), by place."""
        rows = rows if self.spanned is None else self.spanned(rows)
        shares = self.classifier.influence(rows).shares[0]
        return dict(zip(self.places, shares.tolist(), strict=True))

    def novelty(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Say how novel vectors are, as they are: no limit and no basis counts there."""
        return self.classifier.novelty(rows) if self.spanned is None else self._novelty(rows)

    @cached_property
    def _novelty(self) -> Novelty:
        classes, indices = np.unique(self.class_ids, return_inverse=True)
        rows = Rows(self.labelled, indices, len(classes))
        return Novelty.of(rows, draw_seed(self.classifier.random_state))


def pool_of(known: Places, named: Labelled) -> Places:
    """Choose the items without labels that are read beside the labelled ones, always the same."""
    said = np.array(sorted({*named.places, *named.aside}), dtype=np.int64)
    rest = known[~np.isin(known, said)]
    ranks = np.random.default_rng(0).permutation(int(known.max(initial=0)) + 1)
    worth_it = len(rest) >= MIN_POOL and len(named.places) <= MAX_POOLED
    return rest[np.argsort(ranks[rest])][:POOL] if worth_it else rest[:0]
