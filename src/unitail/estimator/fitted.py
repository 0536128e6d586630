"""A support that was read and is ready to answer."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from unitail.errors import InvalidConfig
from unitail.estimator.novelty import Novelty, PartsNovelty
from unitail.estimator.prediction_sets import (
    HeldOut,
    SavedScores,
    calibration_folds,
    folds,
    some_of,
)
from unitail.estimator.rows import Rows, as_support
from unitail.estimator.scaling import (
    AnyScaling,
    PartsScaling,
    Scale,
    Scales,
    Scaling,
    after_unlabelled,
)
from unitail.estimator.settings import Parameters, Settings, draw_seed
from unitail.estimator.support_size import check_joint_call, pair_limit, read_large, reduced
from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm
from unitail.inputs.input_encoder import InputEncoder
from unitail.learners.class_shares import impose_shares
from unitail.learners.in_context import MAX_STATES, episodes_at_once
from unitail.learners.large_hypothesis import LargeHypothesis
from unitail.learners.parts import AnyHypothesis, AnyLearner
from unitail.nn.episode_model import Visibility

MANY_ROWS = 2000
"""From this many labelled rows of a table on, boosting is usually ahead (results/tables)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptExamples:
    """What there is of the examples that a classifier was fitted on; not they themselves."""

    vectors: NDArray[np.float64]
    """(n, d_T)."""
    labels: NDArray[Any]
    """(n,)."""
    encoder: InputEncoder | None
    """What made the vectors; None if they were given."""
    pool: NDArray[Any] | None = None
    """The unlabelled rows that were read with them, (u, d_T)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """The rows that were given, and what the model made of them.

    Pickled are rows, pool and settings alone: all is read again where it is unpickled.
    """

    rows: Rows
    settings: Settings
    """As they were given, but that `scale` is decided."""
    scaling: AnyScaling
    scaled: Rows
    """The rows, scaled."""
    kept: Rows
    """The rows that the model read: all of the scaled ones, or what stands for them."""
    learner: AnyLearner
    hypothesis: AnyHypothesis | LargeHypothesis
    class_shares: Tensor | None
    """How often each class occurs among rows that are answered together, (K,), if known."""
    offsets: Tensor | None
    """What is added to log-probabilities for classes that count more or less, (1, K)."""
    pool: NDArray[Any] | None
    """Unlabelled rows, not scaled, (u, d_T); see `drawn_pool`."""
    pool_read: Tensor | None
    """Those of them that the model read, scaled, (1, u, d_T)."""
    saved_scores: NDArray[np.float64] | None = None
    """What `held_out_scores` were before these rows and settings were saved."""

    @classmethod
    def of(
        cls,
        rows: Rows,
        settings: Settings,
        pool: NDArray[Any] | None = None,
        saved_scores: NDArray[np.float64] | None = None,
    ) -> "Fitted":
        """Read the rows, and the pool if there is one."""
        shares = settings.shares(rows.ways)
        scale, parts = settings.scale, settings.parts
        scaling: AnyScaling = (
            PartsScaling.of(rows.repeated(), scale, parts)
            if parts
            else Scaling.of(rows.repeated(), scale)
        )
        scaled = rows.with_features(scaling(rows.features))
        pooled, width = pool is not None, scaled.features.shape[1]
        limit = pair_limit(settings, rows.ways, width, pooled=pooled)
        whole = scaled.repeated()
        large = read_large(settings, whole, rows.repeated().features, limit, pooled=pooled)
        kept = whole if large else reduced(whole, limit, settings.seed)
        given = None if kept is whole else whole.shots / len(whole)
        offsets = settings.offsets(kept.class_indices[None], rows.ways, given)
        pool_read = None
        if pool is not None:
            limit = max(1, MAX_STATES // rows.ways - len(kept))
            pool_read = torch.from_numpy(scaling(pool[:limit])).unsqueeze(0)
        num_read = len(kept) + (0 if pool_read is None else pool_read.shape[1])
        learner = settings.learner(num_read, scaling.widths)
        hypothesis = large or learner.fit(as_support(kept), pool_read)
        settings = replace(settings, scale=scaling.choice)
        return cls(
            rows=rows,
            settings=settings,
            scaling=scaling,
            scaled=scaled,
            kept=kept,
            learner=learner,
            hypothesis=hypothesis,
            class_shares=shares,
            offsets=offsets,
            pool=pool,
            pool_read=pool_read,
            saved_scores=saved_scores,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        scores = vars(self).get("held_out_scores", self.saved_scores)
        return Fitted.of, (self.rows, self.settings, self.pool, scores)

    def log_probabilities(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        """Answer queries (m, d_T): (m, K)."""
        if not self.settings.visibility.isolates_queries:
            check_joint_call(len(queries), self.settings.max_support)
        scaled = torch.from_numpy(self.scaling(queries)).unsqueeze(0)
        # Nothing of this is ever learned from, and a single row is answered a fifth faster so.
        with torch.inference_mode():
            answers = _agreeing(self.hypothesis(scaled), self.offsets, self.class_shares)
            result: NDArray[np.float64] = answers[0].cpu().numpy()
        return result

    @property
    def reads_all(self) -> bool:
        """Whether the model read the rows themselves, in pairs."""
        whole = len(self.kept) == self.rows.total
        return whole and not isinstance(self.hypothesis, LargeHypothesis)

    @property
    def log_shares(self) -> NDArray[np.float64]:
        """The classes' shares as logarithms, (K,): the answer to what nothing is known of.

        Of all rows: what stands for those of a large support has other shares.
        """
        rows = self.rows.repeated()
        shares = np.log(rows.shots / len(rows))
        offsets = self.settings.offsets(rows.class_indices[None], rows.ways)
        shares = shares if offsets is None else shares + offsets[0].cpu().numpy()
        return np.asarray(shares - np.logaddexp.reduce(shares))

    @property
    def size_notes(self) -> list[str]:
        """Where another method is better for this number of rows, a phrase each."""
        scale = self.settings.scale
        if isinstance(scale, tuple) or not scale.views or len(self.rows) < MANY_ROWS:
            return []
        return [
            f"A table of {len(self.rows):,} labelled rows: from about {MANY_ROWS:,} on, gradient"
            " boosting (HistGradientBoostingClassifier) is usually better, and faster"
        ]

    # What follows costs much and is seldom asked for: it is computed when it is.

    @cached_property
    def isolated(self) -> "Fitted":
        """The same support, asked one query at a time, as prediction sets need it."""
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
        return Fitted.of(self.rows, settings)  # what is not isolated has no pool

    @cached_property
    def held_out_scores(self) -> NDArray[np.float64]:
        """1 - p(true class) of the rows that can be left out; none if no class has two."""
        if self.saved_scores is not None:
            return self.saved_scores
        # Each fold of a large support costs another reading: some of one is enough.
        most = self.settings.max_support
        whole = self.isolated.reads_all or (most is not None and self.rows.total <= most)
        some = [some_of(fold) for fold in folds(self.rows)[:1]]
        held_out = self.held_out(calibration_folds(self.rows) if whole else some)
        return 1 - held_out.own_probabilities(self.rows)

    def scores_to_save(self) -> SavedScores | None:
        """Return what prediction sets are made with, if the model can make them."""
        try:
            return SavedScores.of(self.held_out_scores, self.rows, self.settings, self.pool)
        except InvalidConfig:  # a model that was never asked for one row at a time
            return None

    def held_out(self, every: Sequence[NDArray[np.int64]]) -> HeldOut:
        """Leave out some folds, and ask for them, one row at a time."""
        isolated = self.isolated
        if isolated.reads_all:
            answers = [isolated._leave_out(group) for group in isolated._groups(every)]
        else:
            answers = [isolated._leave_out_and_reduce(fold) for fold in every]
        return HeldOut.joined(answers, self.rows.ways)

    @cached_property
    def novelty(self) -> Novelty | PartsNovelty:
        """How strange rows are to the support."""
        if self.scaling.widths:
            return PartsNovelty.of(self.scaled, self.scaling.widths, self.settings.seed)
        return Novelty.of(self.scaled, self.settings.seed)

    def _groups(self, every: Sequence[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
        """Put folds of the same size together, as many as fit into bounded memory: (B, size)."""
        pool = 0 if self.pool_read is None else self.pool_read.shape[1]
        count = episodes_at_once(self.learner.model, self.rows.total, pool, self.rows.ways)
        if self.rows.counts is not None:
            count = 1  # what is left of each fold has another size
        for size in sorted({len(fold) for fold in every}):
            alike = np.stack([fold for fold in every if len(fold) == size])
            yield from np.split(alike, range(count, len(alike), count))

    def _leave_out(self, group: NDArray[np.int64]) -> HeldOut:
        """Leave out folds (B, size), each in an episode of its own."""
        everyone = np.arange(len(self.rows))
        rest = [self.rows.take(np.delete(everyone, fold)).repeated() for fold in group]
        views = [self.scaling.learned_by(each) for each in rest]  # labels left out have no say
        seen = [view(each.features) for view, each in zip(views, rest, strict=True)]
        support = as_support(*map(Rows.with_features, rest, seen))
        asked = _stacked(views, self.rows.features[group])
        pool = None
        if self.pool is not None and self.pool_read is not None:
            read = self.pool[: self.pool_read.shape[1]]
            pool = _stacked(views, [read] * len(group))
        answers = self.learner.infer(support, asked, pool)
        offsets = self.settings.offsets(support.class_indices.numpy(), support.ways)
        answers = _agreeing(answers, offsets, None)
        return HeldOut(group.ravel(), answers.exp().flatten(0, 1).cpu().numpy())

    def _leave_out_and_reduce(self, fold: NDArray[np.int64]) -> HeldOut:
        """Leave out one fold of a support that is reduced before it is read."""
        scaled = self.rows.with_features(self.scaling.unlabelled(self.rows.features))
        rest = scaled.take(np.delete(np.arange(len(scaled)), fold))
        scale = after_unlabelled(self.settings.scale)
        pool = None if self.pool is None else self.scaling.unlabelled(self.pool)
        fitted = Fitted.of(rest, replace(self.settings, scale=scale), pool)
        answers = fitted.log_probabilities(scaled.features[fold])
        return HeldOut(fold, np.exp(answers))


@dataclass(frozen=True, eq=False)
class ClassifierLearner:
    """`TailClassifier` as a learner: what it answers after a fit, for many episodes at once.

    Of models that are random, each episode of a batch has other draws, and so has each seed.
    """

    settings: Settings
    paradigm = Paradigm.IMPLICIT

    @classmethod
    def of(cls, classifier: Parameters, random_state: int = 0) -> "ClassifierLearner":
        """Take over a classifier's parameters."""
        return cls(Settings.of(classifier, draw_seed(random_state)))

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Answer queries given the supports: log-probabilities (B, m, K)."""
        features, queries = support.features.cpu().double(), query_features.cpu()
        indices = support.class_indices.cpu().numpy()
        limit = pair_limit(self.settings, support.ways, support.feature_dim)
        whole = limit is None or support.num_support <= limit
        scaled = _scaled_alone(support, queries, self.settings.scale) if whole else None
        if scaled is None:  # each support is scaled and reduced by itself
            each = zip(features.numpy(), indices, queries.numpy(), strict=True)
            return torch.stack([self._alone(*episode, support.ways) for episode in each])
        learner = self.settings.learner(support.num_support)
        answers = learner.infer(replace(support, features=scaled[0]), scaled[1])
        offsets = self.settings.offsets(indices, support.ways)
        return _agreeing(answers, offsets, self.settings.shares(support.ways))

    def with_seed(self, seed: int) -> "ClassifierLearner":
        """Return the same learner with other draws; see `framework.learner.reseeded`."""
        return ClassifierLearner(replace(self.settings, seed=seed))

    def _alone(
        self,
        rows: NDArray[Any],
        class_indices: NDArray[np.int64],
        queries: NDArray[Any],
        ways: int,
    ) -> Tensor:
        """Answer one episode of a batch."""
        fitted = Fitted.of(Rows(rows, class_indices, ways), self.settings)
        return torch.from_numpy(fitted.log_probabilities(queries))


def _scaled_alone(support: Support, queries: Tensor, scale: Scales) -> tuple[Tensor, Tensor] | None:
    """Scale each of B supports and its queries (B, m, d_T) by itself.

    None where values are missing: what stands for them may take other columns in each episode.
    So it is with parts to which anything is done.
    """
    features, indices = support.features.cpu().double(), support.class_indices.cpu().numpy()
    if features.isnan().any() or queries.isnan().any():
        return None
    if isinstance(scale, tuple):
        return (features, queries) if set(scale) == {Scale.NONE} else None
    rows = [
        Rows(each, own, support.ways) for each, own in zip(features.numpy(), indices, strict=True)
    ]
    scalings = [Scaling.of(each, scale) for each in rows]
    if all(scaling.choice is Scale.NONE for scaling in scalings):
        return features, queries

    def scaled(rows: Tensor) -> Tensor:
        each = zip(scalings, rows.double(), strict=True)
        shown = [torch.from_numpy(scaling(one.numpy())) for scaling, one in each]
        # Not all have as many columns with steps; zeros beside them change no relation.
        width = max(one.shape[1] for one in shown)
        return torch.stack([F.pad(one, (0, width - one.shape[1])) for one in shown])

    return scaled(features), scaled(queries)


def _stacked(views: Sequence[AnyScaling], rows: Iterable[NDArray[Any]]) -> Tensor:
    """Show each of B times some rows (B, m, d_T) through a view of its own."""
    return torch.from_numpy(np.stack([view(each) for view, each in zip(views, rows, strict=True)]))


def _agreeing(answers: Tensor, offsets: Tensor | None, shares: Tensor | None) -> Tensor:
    """Let answers (B, m, K) count classes as the offsets (B, K) say, and agree with shares."""
    # In double precision, so that probabilities add up to one as callers expect.
    answers = answers.double()
    if offsets is not None:
        answers = answers + offsets.unsqueeze(1).to(answers.device)
    answers = answers.log_softmax(dim=-1)
    return answers if shares is None else impose_shares(answers, shares.to(answers.device))
