"""The classifier fitted on the current labels, with the cached vectors of its queries."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unitail.estimator.classifier import TailClassifier
from unitail.estimator.novelty import Novelty
from unitail.estimator.rows import Rows
from unitail.estimator.settings import draw_seed
from unitail.studio.projection import ProjectionCache, choose_projection, with_shared_model
from unitail.studio.state import Labelled, Places
from unitail.studio.stored_rows import Origin
from unitail.studio.vectors import ItemVectors
from unitail.workflows.fit import ClassifierOptions

POOL, MIN_POOL = 200, 20
"""Largest and smallest number of unlabelled items read beside the labelled ones."""
MAX_POOLED = 500
"""Largest number of labels to use a pool for: with more, it helps little and takes long."""

MAX_IMMEDIATE = 300
"""Largest number of labels that answers are based on which somebody waits for."""
MIN_OF_CLASS = 5
"""Labels of each class among them, if it has as many, however old they are."""

Pool = tuple[tuple[int, ...], tuple[int, ...]]
"""Places of the items read beside the labelled ones, and the versions of their vectors."""
NO_POOL: Pool = ((), ())


@dataclass(frozen=True)
class SupportPlaces:
    """The labelled items that a classifier reads, and all that its answers depend on."""

    places: tuple[int, ...]
    class_ids: tuple[int, ...]
    versions: tuple[int, ...]
    """Versions of the vectors."""
    is_own: tuple[bool, ...]
    """Whether each label was given by a user, and not only confirmed for many items at once."""

    @classmethod
    def of(cls, named: Labelled, vectors: ItemVectors, *, max_size: int | None = None) -> Self:
        """Return the labelled items that have a vector; with `max_size` the most telling ones."""
        encoded = set(vectors.encoded_places().tolist())
        rows = [row for row, place in enumerate(named.places) if place in encoded]
        if max_size is not None and len(rows) > max_size:
            rows = _most_telling(named, rows, max_size)
        places = tuple(named.places[row] for row in rows)
        return cls(
            places,
            tuple(named.class_ids[row] for row in rows),
            tuple(vectors.versions(np.array(places, dtype=np.int64)).tolist()),
            tuple(named.origins[row] != Origin.CONFIRMED for row in rows),
        )


def _most_telling(named: Labelled, rows: Sequence[int], max_size: int) -> list[int]:
    """Choose labels: some of each class, then those that users gave, then confirmed ones.

    Newer labels come before older ones. Of those confirmed many at once, which resemble each other,
    each class keeps about the same number.
    """
    newest = sorted(rows, key=lambda row: (_is_confirmed(named, row), -named.versions[row]))
    counts: Counter[int] = Counter()
    ranks: dict[int, tuple[int, bool, int]] = {}
    for row in newest:
        rank, is_confirmed = counts[named.class_ids[row]], _is_confirmed(named, row)
        counts[named.class_ids[row]] += 1
        ranks[row] = (min(rank, MIN_OF_CLASS), is_confirmed, rank if is_confirmed else 0)
    size = max(max_size, len(counts))  # at least one of each class
    return sorted(sorted(newest, key=ranks.__getitem__)[:size])


def _is_confirmed(named: Labelled, row: int) -> bool:
    return named.origins[row] == Origin.CONFIRMED


@dataclass(frozen=True, eq=False)
class FittedLabels:
    """A classifier that predicts class ids, with its labelled vectors and its cache."""

    classifier: TailClassifier
    cache: ProjectionCache | None
    """Projected vectors of queries; None if vectors are used unchanged and nothing is cached."""
    places: tuple[int, ...]
    """Places of the labelled items."""
    labelled: NDArray[np.float32]
    class_ids: NDArray[np.int64]
    is_own: NDArray[np.bool_]
    """Labels that were not confirmed many at once: those are easier than the items that are open,
    so they say nothing of how far from its class a usual item is."""

    @classmethod
    def of(
        cls,
        vectors: ItemVectors,
        support: SupportPlaces,
        pool: Pool,
        *,
        device: str,
        caches: Sequence[ProjectionCache],
        on_projection: Callable[[ProjectionCache], None],
    ) -> Self | None:
        """Fit a classifier; None if there are fewer than two classes.

        `caches` may be used again. `on_projection` is called before the fit with the chosen cache,
        if it projects vectors.
        """
        places, labels = support.places, np.array(support.class_ids)
        if len(set(support.class_ids)) < 2:
            return None
        classifier = (
            ClassifierOptions(device=device)
            .classifier(vectors.chosen_encoder)
            .set_params(precision="single")
        )
        key = (places, support.versions, pool)
        rows = vectors.at(np.array([*places, *pool[0]]))
        labelled = rows[: len(places)]
        cache = choose_projection(vectors.chosen_encoder, rows, key, caches, pooled=bool(pool[0]))
        if cache is not None:
            if cache.projection is not None:
                on_projection(cache)
            classifier, rows = with_shared_model(classifier, cache), cache.labelled(rows)
        support_rows, pool_rows = rows[: len(places)], rows[len(places) :]
        classifier.fit(support_rows, labels, pool=pool_rows if len(pool_rows) else None)
        is_own = np.array(support.is_own)
        classifier.fitted_ = replace(classifier.fitted_, representative=is_own)
        return cls(classifier, cache, places, labelled, labels, is_own)

    def probabilities(
        self, places: Places, versions: Places, read: Callable[[Places], NDArray[np.float32]]
    ) -> NDArray[np.float64]:
        """Return class probabilities of the items at some places, (m, K); `read` gets vectors."""
        if self.cache is None:
            return self.classifier.predict_proba(read(places))
        return self.classifier.predict_proba(self.cache.at(places, versions, read))

    def shares(self, rows: NDArray[np.float32]) -> dict[int, float]:
        """Return the share of each labelled item, by place, in the answer to one vector (1, d)."""
        rows = rows if self.cache is None else self.cache(rows)
        shares = self.classifier.influence(rows).shares[0]
        return dict(zip(self.places, shares.tolist(), strict=True))

    def novelty(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the novelty of vectors (m, d), which must not be projected."""
        return self.classifier.novelty(rows) if self.cache is None else self._novelty(rows)

    @cached_property
    def _novelty(self) -> Novelty:
        classes, indices = np.unique(self.class_ids, return_inverse=True)
        rows = Rows(self.labelled, indices, len(classes))
        measure = Novelty.of(rows, draw_seed(self.classifier.random_state))
        return measure.calibrated_on(self.is_own)


def choose_pool(encoded: Places, named: Labelled) -> Places:
    """Choose the unlabelled items to read beside the labelled ones; the choice changes little."""
    labelled = np.array(sorted({*named.places, *named.aside}), dtype=np.int64)
    unlabelled = encoded[~np.isin(encoded, labelled)]
    ranks = np.random.default_rng(0).permutation(int(encoded.max(initial=0)) + 1)
    is_useful = len(unlabelled) >= MIN_POOL and len(named.places) <= MAX_POOLED
    return unlabelled[np.argsort(ranks[unlabelled])][:POOL] if is_useful else unlabelled[:0]
