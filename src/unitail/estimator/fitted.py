"""A support that the model has read, ready to answer queries."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
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
    Scaling,
    after_unlabelled,
)
from unitail.estimator.settings import Settings
from unitail.estimator.support_size import (
    ReadingRule,
    check_joint_call,
    read_large_support,
    reduced,
)
from unitail.inputs.input_encoder import InputEncoder
from unitail.learners.class_shares import impose_shares
from unitail.learners.in_context import MAX_STATES, episodes_at_once
from unitail.learners.large_hypothesis import LargeHypothesis
from unitail.learners.parts import AnyHypothesis, AnyLearner
from unitail.nn.episode_model import Visibility

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
    encoder: InputEncoder | None
    """The encoder that made the vectors; None if the user passed vectors."""
    pool: NDArray[Any] | None = None
    """Unlabelled rows that were read with them, (u, d_T)."""


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


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
    class_shares: Tensor | None
    """How often each class occurs among the queries of one call, (K,), if known."""
    offsets: Tensor | None
    """Added to log-probabilities, by class prior and weights, (1, K)."""
    pool: NDArray[Any] | None
    """Unlabelled rows, not scaled, (u, d_T); see `drawn_pool`."""
    pool_read: Tensor | None
    """The rows of the pool that the model read, scaled, (1, u, d_T)."""
    saved_scores: NDArray[np.float64] | None = None
    """Used in place of `held_out_scores` if set: loaded, unpickled, or those of some rows only."""

    @classmethod
    def of(
        cls,
        rows: Rows,
        settings: Settings,
        pool: NDArray[Any] | None = None,
        saved_scores: NDArray[np.float64] | None = None,
    ) -> "Fitted":
        """Let the model read the rows, and the pool if there is one."""
        shares = settings.shares(rows.ways)
        scale, parts = settings.scale, settings.parts
        scaling: AnyScaling = (
            PartsScaling.of(rows.repeated(), scale, parts)
            if parts
            else Scaling.of(rows.repeated(), scale)
        )
        scaled = rows.with_features(scaling(rows.features))
        whole, width = scaled.repeated(), scaled.features.shape[1]
        rule = ReadingRule.of(settings, rows.ways, width, pooled=pool is not None)
        large, kept = None, whole
        if rule.is_large(len(whole)):
            large = read_large_support(settings, whole, rows.repeated().features)
        else:
            kept = reduced(whole, rule.max_paired, settings.seed)
        true_shares = None if kept is whole else whole.shots / len(whole)
        offsets = settings.offsets(kept.class_indices[None], rows.ways, true_shares)
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
        """Return the log-probabilities (m, K) of queries (m, d_T)."""
        if not self.settings.visibility.isolates_queries:
            check_joint_call(len(queries), self.settings.max_support)
        scaled = torch.from_numpy(self.scaling(queries)).unsqueeze(0)
        # No gradients are needed, and this makes the answer to a single row a fifth faster.
        with torch.inference_mode():
            answers = adjusted(self.hypothesis(scaled), self.offsets, self.class_shares)
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
        offsets = self.settings.offsets(rows.class_indices[None], rows.ways)
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
        return 1 - held_out.true_class_probabilities(self.rows)

    def calibrated_on(self, is_representative: NDArray[np.bool_]) -> "Fitted":
        """Return the same support with prediction sets calibrated only on the rows in a mask (n,).

        Use it if other rows are easier to classify than future queries. If too few rows remain, all
        rows calibrate.
        """
        if is_representative.all():
            return self
        held_out = self._held_out_to_calibrate()
        kept = is_representative[held_out.places]
        if kept.sum() < MIN_CALIBRATED:
            return self
        return replace(self, saved_scores=1 - held_out.true_class_probabilities(self.rows)[kept])

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
            answers = [isolated._leave_out_and_reduce(fold) for fold in left_out]
        return HeldOut.joined(answers, self.rows.ways)

    @cached_property
    def novelty(self) -> Novelty | PartsNovelty:
        """The novelty measure, fitted to the support."""
        if self.scaling.widths:
            return PartsNovelty.of(self.scaled, self.scaling.widths, self.settings.seed)
        return Novelty.of(self.scaled, self.settings.seed)

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
        offsets = self.settings.offsets(support.class_indices.numpy(), support.ways)
        answers = adjusted(answers, offsets, None)
        return HeldOut(group.ravel(), answers.exp().flatten(0, 1).cpu().numpy())

    def _leave_out_and_reduce(self, fold: NDArray[np.int64]) -> HeldOut:
        """Classify one fold given all other rows, which are reduced before they are read."""
        scaled = self.rows.with_features(self.scaling.unlabelled(self.rows.features))
        remaining = scaled.take(np.delete(np.arange(len(scaled)), fold))
        scale = after_unlabelled(self.settings.scale)
        pool = None if self.pool is None else self.scaling.unlabelled(self.pool)
        fitted = Fitted.of(remaining, replace(self.settings, scale=scale), pool)
        answers = fitted.log_probabilities(scaled.features[fold])
        return HeldOut(fold, np.exp(answers))


def _stacked(scalings: Sequence[AnyScaling], rows: Iterable[NDArray[Any]]) -> Tensor:
    """Scale B blocks of rows, each with its own scaling, and stack them: (B, m, d_T)."""
    blocks = [scaling(block) for scaling, block in zip(scalings, rows, strict=True)]
    return torch.from_numpy(np.stack(blocks))


def adjusted(answers: Tensor, offsets: Tensor | None, shares: Tensor | None) -> Tensor:
    """Add class offsets (B, K) to answers (B, m, K), normalise, and impose class shares (K,)."""
    # Double precision makes probabilities sum to one as closely as callers expect.
    answers = answers.double()
    if offsets is not None:
        answers = answers + offsets.unsqueeze(1).to(answers.device)
    answers = answers.log_softmax(dim=-1)
    return answers if shares is None else impose_shares(answers, shares.to(answers.device))
