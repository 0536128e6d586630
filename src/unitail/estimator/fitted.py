r"""A support that the model has read, ready to answer queries.

How it is read: all rows in pairs, cluster centres in pairs, or all rows without pairs. The model
relates every row to every other, so reading takes memory for n² pairs, and n K for the states of K
classes. Above the limit each class keeps at most a quota of rows, the same for all classes and as
large as the limit allows; smaller classes keep all of their rows, and every class keeps at least
one. The rows of a class above the quota are replaced by as many cluster centres (k-means), which
cover the class better than a sample of its rows. This changes the class shares, so answers are
corrected to the shares of all rows by Bayes' rule (`Settings.offsets`). Reduction is for joint
answers, pools, parts and models other than relational ones; others read all rows without pairs
(`ReadingRule`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unitail.errors import InvalidConfig, TooManyClasses, UserError
from unitail.estimator.novelty import Novelty, PartsNovelty
from unitail.estimator.prediction_sets import (
    HeldOut,
    SavedScores,
    calibration_folds,
    folds,
    some_of,
)
from unitail.estimator.rows import Rows, as_support, class_quota, reduced
from unitail.estimator.scaling import (
    AnyScaling,
    PartsScaling,
    Scaling,
    after_label_free,
)
from unitail.estimator.settings import MAX_SUPPORT, Settings
from unitail.inputs.input_encoder import InputEncoder
from unitail.learners.class_shares import impose_shares
from unitail.learners.in_context import MAX_STATES, episodes_at_once
from unitail.learners.large_hypothesis import LargeHypothesis, read_large
from unitail.learners.parts import AnyHypothesis, AnyLearner
from unitail.nn.episode_model import AnyModel, Visibility
from unitail.randomness import content_order
from unitail.relational.model import Relational

MAX_PAIRED = 1000
"""Largest number of rows for which reading in pairs is the faster way to the same answers."""
MAX_PAIRED_WAYS, MAX_PAIRED_STATES = 256, 2**17
"""Largest number of classes, and of classes times rows, that are read in pairs: queries then have
states for all classes, while without pairs they have a few, which costs up to a point."""
MAX_WIDTH = 4096
"""Largest width of rows that are read without pairs, which keeps products of coordinates."""
MIN_CALIBRATED = 20
"""Fewest rows that may calibrate alone; with fewer, sets of high coverage hold all classes."""
MANY_ROWS = 2000
"""Labelled rows of a table from which boosting is usually more accurate (results/tables)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptExamples:
    """What a classifier keeps of the examples it was fitted on: vectors and labels, not items."""

    vectors: NDArray[np.float64]
    """Shape (n, d_T)."""
    labels: NDArray[Any]
    """Shape (n,)."""
    places: NDArray[np.int64]
    """The place of each row among all that were passed to `fit` and `add`, (n,)."""
    encoder: InputEncoder | None
    """The encoder that made the vectors; None if the user passed vectors."""
    pool: NDArray[Any] | None = None
    """Unlabelled rows that were read with them, (u, d_T)."""


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True)
class ReadingRule:
    """Which supports are read in pairs of rows, and what is done with larger ones."""

    max_paired: int | None
    """Largest number of rows that are read in pairs; None if there is no limit."""
    reads_large: bool
    """Whether larger supports are read completely, without pairs; otherwise they are reduced."""

    @classmethod
    def of(cls, settings: Settings, ways: int, width: int, *, pooled: bool = False) -> Self:
        """Return the rule for K classes of rows of this width; `pooled` with a pool beside them."""
        isolated = settings.visibility.isolates_queries
        bounded = settings.max_support is not None
        may_be_large = bounded and isolated and not settings.parts and not pooled
        large = may_be_large and takes_large(settings.given_model, width)
        if large and ways > MAX_PAIRED_WAYS:
            return cls(0, large)
        limit = support_limit(settings.max_support, ways)
        if large and limit is not None:
            limit = min(limit, MAX_PAIRED, MAX_PAIRED_STATES // ways)
        return cls(limit, large)

    def in_pairs(self, rows: int) -> bool:
        """Return whether this many rows are read in pairs, all of them."""
        return self.max_paired is None or rows <= self.max_paired

    def is_large(self, rows: int) -> bool:
        """Return whether this many rows are read without pairs."""
        return self.reads_large and not self.in_pairs(rows)

    def kept(self, rows: int, ways: int) -> int:
        """Return the number of rows that are read, for classes of equal size."""
        if self.max_paired is None or self.in_pairs(rows) or self.reads_large:
            return rows
        shots = np.full(ways, rows // ways)
        shots[: rows % ways] += 1
        return int(np.minimum(shots, class_quota(shots, self.max_paired)).sum())


def takes_large(model: AnyModel, width: int) -> bool:
    """Return whether a model can read any number of rows of this width."""
    return model.takes_large_supports and width <= MAX_WIDTH


def support_limit(max_support: int | None, ways: int) -> int | None:
    """Return the largest number of rows of K classes that are kept; None if there is no limit."""
    if max_support is None:
        return None
    if ways**2 > MAX_STATES:
        raise TooManyClasses(
            "the classes do not fit into bounded memory",
            got=f"{ways} classes",
            allowed=f"at most {int(MAX_STATES**0.5)}, or any number with max_support=None",
            remedy="Set max_support=None if there is enough memory, or split the task.",
        )
    return max(ways, min(max_support, MAX_STATES // ways))


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """The labelled rows, and the hypothesis that the model made of them.

    Only rows, pool, settings and calibration scores are pickled; unpickling reads the support anew.
    """

    rows: Rows
    settings: Settings
    """The user's settings, with `scale` resolved."""
    scaling: AnyScaling
    scaled: Rows
    """The rows, scaled."""
    kept: Rows
    """The scaled rows that the model read: all of them, or cluster centres in their place."""
    learner: AnyLearner
    hypothesis: AnyHypothesis | LargeHypothesis
    offsets: Tensor | None
    """Added to log-probabilities, by class prior and weights, (1, K)."""
    pool: NDArray[Any] | None
    """Unlabelled rows, not scaled, (u, d_T); see `drawn_pool`."""
    pool_read: Tensor | None
    """The rows of the pool that the model read, scaled, (1, u, d_T)."""
    saved_scores: NDArray[np.float64] | None = None
    """Used in place of `held_out_scores` if set: loaded or unpickled."""
    representative: NDArray[np.bool_] | None = None
    """Rows that calibrate prediction sets and novelty, (n,); None if all do."""

    @classmethod
    def of(
        cls,
        rows: Rows,
        settings: Settings,
        pool: NDArray[Any] | None = None,
        saved_scores: NDArray[np.float64] | None = None,
        representative: NDArray[np.bool_] | None = None,
    ) -> "Fitted":
        """Let the model read the rows, and the pool if there is one."""
        scale, parts = settings.scale, settings.parts
        scaling: AnyScaling = (
            PartsScaling.of(rows.repeated(), scale, parts)
            if parts
            else Scaling.of(rows.repeated(), scale)
        )
        scaled = rows.with_features(scaling(rows.features))
        whole, width = scaled.repeated(), scaled.features.shape[1]
        rule = ReadingRule.of(settings, rows.ways, width, pooled=pool is not None)
        hypothesis: AnyHypothesis | LargeHypothesis
        if rule.is_large(len(whole)):
            kept, pool_read, learner = whole, None, settings.learner(len(whole))
            assert isinstance(learner.model, Relational)
            # The order is random, but depends on the content of the vectors as they were given.
            order = content_order(rows.repeated().features, whole.class_indices, settings.seed)
            hypothesis = read_large(
                learner.model, as_support(whole), torch.from_numpy(order), settings.chunk_size
            )
        else:
            kept = reduced(whole, rule.max_paired, settings.seed)
            pool_read = _pool_to_read(pool, scaling, kept)
            num_read = len(kept) + (0 if pool_read is None else pool_read.shape[1])
            learner = settings.learner(num_read, scaling.widths)
            hypothesis = learner.fit(as_support(kept), pool_read)
        shares = None if kept is whole else whole.shots / len(whole)
        return cls(
            rows=rows,
            settings=replace(settings, scale=scaling.choice),
            scaling=scaling,
            scaled=scaled,
            kept=kept,
            learner=learner,
            hypothesis=hypothesis,
            offsets=settings.offsets(kept.class_indices[None], shares),
            pool=pool,
            pool_read=pool_read,
            saved_scores=saved_scores,
            representative=representative,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        scores = vars(self).get("held_out_scores", self.saved_scores)
        return Fitted.of, (self.rows, self.settings, self.pool, scores, self.representative)

    def log_probabilities(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        """Return the log-probabilities (m, K) of queries (m, d_T)."""
        if not self.settings.visibility.isolates_queries:
            check_joint_call(len(queries), self.settings.max_support)
        scaled = torch.from_numpy(self.scaling(queries)).unsqueeze(0)
        # No gradients are needed, and this makes the answer to a single row a fifth faster.
        with torch.inference_mode():
            answers = adjusted(self.hypothesis(scaled), self.offsets, self.settings.class_shares)
            result: NDArray[np.float64] = answers[0].cpu().numpy()
        return result

    @property
    def reads_all(self) -> bool:
        """Whether the model read all rows themselves, in pairs."""
        whole = len(self.kept) == self.rows.total
        return whole and not isinstance(self.hypothesis, LargeHypothesis)

    @property
    def log_shares(self) -> NDArray[np.float64]:
        """The log-probabilities of a blank query: the classes' shares and offsets, (K,).

        Shares are those of all rows, which cluster centres of a large support do not keep.
        """
        rows = self.rows.repeated()
        shares = np.log(rows.shots / len(rows))
        offsets = self.settings.offsets(rows.class_indices[None])
        shares = shares if offsets is None else shares + offsets[0].cpu().numpy()
        return np.asarray(shares - np.logaddexp.reduce(shares))

    @property
    def size_notes(self) -> list[str]:
        """A phrase for each reason to use another method with this number of rows."""
        scale = self.settings.scale
        if isinstance(scale, tuple) or not scale.views or len(self.rows) < MANY_ROWS:
            return []
        return [
            f"A table of {len(self.rows):,} labelled rows: from about {MANY_ROWS:,} on, gradient"
            " boosting (HistGradientBoostingClassifier) is usually better, and faster"
        ]

    # The properties below are expensive and rarely needed, so they are computed on first use.

    @cached_property
    def isolated(self) -> "Fitted":
        """The same support with isolated queries, as prediction sets need it."""
        if self.settings.visibility.isolates_queries:
            return self
        trained_for = self.learner.model.trained_for
        if Visibility.ISOLATED not in trained_for:
            raise InvalidConfig(
                "prediction sets need answers to one row at a time",
                got=f"a model that was trained for {', '.join(trained_for)} answers alone",
                allowed="a model that was trained for isolated answers",
                remedy="Use predict_proba, or give another model.",
            )
        settings = replace(self.settings, visibility=Visibility.ISOLATED, class_shares=None)
        return Fitted.of(self.rows, settings)  # only isolated answers can have a pool

    @cached_property
    def held_out_scores(self) -> NDArray[np.float64]:
        """1 - p(true class) of the rows that can be left out; empty if no class has two rows."""
        if self.saved_scores is not None:
            return self.saved_scores
        held_out = self._held_out_to_calibrate()
        scores = 1 - held_out.true_class_probabilities(self.rows)
        if self.representative is None:
            return scores
        kept = self.representative[held_out.places]
        return scores if kept.sum() < MIN_CALIBRATED else scores[kept]

    def calibrated_on(self, is_representative: NDArray[np.bool_]) -> "Fitted":
        """Return the same support with sets and novelty calibrated only on the rows in a mask (n,).

        Use it if other rows are easier to classify than future queries. If too few rows remain, all
        rows calibrate.
        """
        representative = None if is_representative.all() else is_representative
        if representative is None and self.representative is None:
            return self
        return replace(self, representative=representative, saved_scores=None)

    def _held_out_to_calibrate(self) -> HeldOut:
        # Each fold costs another reading of the support: of a large one, part of one fold will do.
        limit = self.settings.max_support
        all_folds = self.isolated.reads_all or (limit is not None and self.rows.total <= limit)
        sampled = [some_of(fold) for fold in folds(self.rows)[:1]]
        return self.held_out(calibration_folds(self.rows) if all_folds else sampled)

    def scores_to_save(self) -> SavedScores | None:
        """Return the scores of prediction sets, or None if the model cannot answer in isolation."""
        try:
            return SavedScores.of(self.held_out_scores, self.rows, self.settings, self.pool)
        except InvalidConfig:  # the model was not trained for isolated queries
            return None

    def held_out(self, left_out: Sequence[NDArray[np.int64]]) -> HeldOut:
        """Classify the rows of each fold in isolation, given all other rows."""
        isolated = self.isolated
        if isolated.reads_all:
            answers = [isolated._leave_out(group) for group in isolated._groups(left_out)]
        else:
            answers = [isolated._leave_out_and_reread(fold) for fold in left_out]
        return HeldOut.joined(answers, self.rows.ways)

    @cached_property
    def novelty(self) -> Novelty | PartsNovelty:
        """The novelty measure, fitted to the support."""
        measure = (
            PartsNovelty.of(self.scaled, self.scaling.widths, self.settings.seed)
            if self.scaling.widths
            else Novelty.of(self.scaled, self.settings.seed)
        )
        return (
            measure if self.representative is None else measure.calibrated_on(self.representative)
        )

    def _groups(self, left_out: Sequence[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
        """Batch folds of the same size, as many as fit into bounded memory: (B, size)."""
        pool = 0 if self.pool_read is None else self.pool_read.shape[1]
        count = episodes_at_once(self.learner.model, self.rows.total, pool, self.rows.ways)
        if self.rows.counts is not None:
            count = 1  # what remains without a fold has a different size for each
        for size in sorted({len(fold) for fold in left_out}):
            same_size = np.stack([fold for fold in left_out if len(fold) == size])
            yield from np.split(same_size, range(count, len(same_size), count))

    def _leave_out(self, group: NDArray[np.int64]) -> HeldOut:
        """Classify folds (B, size) given all other rows, as one batch of episodes."""
        places = np.arange(len(self.rows))
        remaining = [self.rows.take(np.delete(places, fold)).repeated() for fold in group]
        # Labels that are left out must not affect the scaling either.
        scalings = [self.scaling.learned_by(rows) for rows in remaining]
        scaled = [scale(rows.features) for scale, rows in zip(scalings, remaining, strict=True)]
        support = as_support(*map(Rows.with_features, remaining, scaled))
        queries = _stacked(scalings, self.rows.features[group])
        pool = None
        if self.pool is not None and self.pool_read is not None:
            read = self.pool[: self.pool_read.shape[1]]
            pool = _stacked(scalings, [read] * len(group))
        answers = self.learner.infer(support, queries, pool)
        offsets = self.settings.offsets(support.class_indices.numpy())
        answers = adjusted(answers, offsets, None)
        return HeldOut(group.ravel(), answers.exp().flatten(0, 1).cpu().numpy())

    def _leave_out_and_reread(self, fold: NDArray[np.int64]) -> HeldOut:
        """Classify one fold given all other rows, which are read as a support of their own."""
        scaled = self.rows.with_features(self.scaling.label_free(self.rows.features))
        remaining = scaled.take(np.delete(np.arange(len(scaled)), fold))
        scale = after_label_free(self.settings.scale)
        pool = None if self.pool is None else self.scaling.label_free(self.pool)
        fitted = Fitted.of(remaining, replace(self.settings, scale=scale), pool)
        answers = fitted.log_probabilities(scaled.features[fold])
        return HeldOut(fold, np.exp(answers))


def _pool_to_read(pool: NDArray[Any] | None, scaling: AnyScaling, kept: Rows) -> Tensor | None:
    """Return as many rows of the pool as memory can hold, scaled: (1, u, d_T)."""
    if pool is None:
        return None
    limit = max(1, MAX_STATES // kept.ways - len(kept))
    return torch.from_numpy(scaling(pool[:limit])).unsqueeze(0)


def joint_limit(max_support: int | None) -> int | None:
    """Return the largest number of queries that may see each other; None if there is no limit.

    A `max_support` below `MAX_SUPPORT` does not lower this limit: queries take their own memory.
    """
    return None if max_support is None else max(max_support, MAX_SUPPORT)


def check_joint_call(num_queries: int, max_support: int | None) -> None:
    """Refuse more queries than can see each other in bounded memory; see `joint_limit`."""
    limit = joint_limit(max_support)
    if limit is not None and num_queries > limit:
        raise UserError(
            "the rows of one call, which see each other, do not fit into bounded memory",
            got=f"{num_queries} rows in one call",
            allowed=f"at most {limit} (max_support, or {MAX_SUPPORT} if that is less), or any"
            " number with visibility='isolated'",
            remedy="Pass fewer rows in a call, or raise max_support.",
        )


def _stacked(scalings: Sequence[AnyScaling], rows: Iterable[NDArray[Any]]) -> Tensor:
    """Scale B blocks of rows, each with its own scaling, and stack them: (B, m, d_T)."""
    blocks = [scaling(block) for scaling, block in zip(scalings, rows, strict=True)]
    return torch.from_numpy(np.stack(blocks))


def adjusted(answers: Tensor, offsets: Tensor | None, shares: NDArray[np.float64] | None) -> Tensor:
    """Add class offsets (B, K) to answers (B, m, K), normalise, and impose class shares (K,)."""
    # Double precision makes probabilities sum to one as closely as callers expect.
    answers = answers.double()
    if offsets is not None:
        answers = answers + offsets.unsqueeze(1).to(answers.device)
    answers = answers.log_softmax(dim=-1)
    if shares is None:
        return answers
    return impose_shares(answers, torch.from_numpy(shares).to(answers.device))
