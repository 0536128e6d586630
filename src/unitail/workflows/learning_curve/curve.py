"""Estimate a learning curve on a user's own labelled rows: accuracy now and with more examples."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.answer_defaults import SPLITS
from unitail.estimator.prediction_sets import HeldOut
from unitail.estimator.rows import Rows
from unitail.estimator.suspicious_labels import SuspiciousLabel, suspicious_labels
from unitail.framework.episode import Episode, Query, Support
from unitail.framework.learner import Cannot, Inference, ask
from unitail.learners.in_context import episodes_at_once
from unitail.learners.pretrained import load_default
from unitail.nn.episode_model import AnyModel
from unitail.progress import OnProgress
from unitail.workflows.learning_curve.interval import Estimate, MarkMoments, Marks, forecast
from unitail.workflows.learning_curve.splits import (
    Splits,
    check_rows,
    leave_out_splits,
    random_splits,
    shot_series,
)

AnsweredClasses = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Level:
    """All splits of one size, with each learner's answers to their T queries."""

    rows: Rows
    splits: Sequence[Splits]
    shots: int | None
    """N; None for leave-one-out."""
    answers: dict[str, AnsweredClasses] = field(default_factory=dict)
    """The classes that each learner chose, (T,)."""
    probabilities: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """Each learner's probabilities, (T, K); for leave-one-out only."""

    @property
    def count(self) -> int:
        """Number of splits."""
        return sum(group.count for group in self.splits)

    @property
    def shots_on_average(self) -> float:
        """Support rows per class; below N if some classes are too small."""
        return float(self.splits[0].support.shape[1]) / self.rows.ways

    @property
    def share(self) -> float:
        """The share of its rows that a class gives to the support, on average."""
        support_sizes = np.bincount(self.rows.class_indices[self.splits[0].support[0]])
        return float((support_sizes / self.rows.shots).mean())

    @cached_property
    def query_rows(self) -> NDArray[np.int64]:
        """The row of each query, (T,)."""
        return np.concatenate([group.query.ravel() for group in self.splits])

    def marks(self, name: str) -> Marks:
        """Mark each of a learner's answers as correct (1) or wrong (0)."""
        value = self.answers[name] == self.rows.class_indices[self.query_rows]
        sizes = [group.query.shape[1] for group in self.splits for _ in range(group.count)]
        split = np.repeat(np.arange(self.count), sizes)
        return Marks(split, self.query_rows, value.astype(np.float64), self.rows.class_indices)


@dataclass(frozen=True, eq=False)
class OwnCurve:
    """Accuracy against shots, by leaving rows out; the last level is leave-one-out."""

    rows: Rows
    learners: tuple[str, ...]
    levels: tuple[Level, ...]
    failures: Mapping[str, str]
    """Reasons why learners could not solve the task, by name."""
    counted: NDArray[np.bool_]
    """Rows on which accuracy is measured, (N,); the others only serve as examples."""

    def accuracy(self, name: str) -> dict[int, Estimate]:
        """Return the accuracy at each level that the learner answered, by the level's index."""
        return {place: each.accuracy() for place, each in self._moments(name).items()}

    def spread(self, name: str) -> dict[int, float]:
        """Return the standard deviation of accuracy from one support to another, by level."""
        return {place: each.support_variance**0.5 for place, each in self._moments(name).items()}

    def lead(self, name: str, over: str) -> dict[int, Estimate]:
        """Return the lead in accuracy of one learner over another on the same queries, by level."""
        return {place: each.difference() for place, each in self._moments(name, over).items()}

    def forecast(self, name: str) -> Estimate:
        """Extrapolate the accuracy to twice the examples."""
        accuracies = self.accuracy(name)
        shots = [self.levels[place].shots_on_average for place in accuracies]
        return forecast(shots, list(accuracies.values()), 2 * shots[-1])

    def _moments(self, name: str, over: str | None = None) -> dict[int, MarkMoments]:
        """Return the moments of the marks, or of their differences, by level.

        Each level carries its support variance over to the next; see `interval`.
        """
        moments: dict[int, MarkMoments] = {}
        carried = None
        for place, level in enumerate(self.levels):
            if name in level.answers and (over is None or over in level.answers):
                marks = level.marks(name)
                if over is not None:
                    marks = replace(marks, value=marks.value - level.marks(over).value)
                marks = marks.among(self.counted)
                if not len(marks.row):
                    continue
                moments[place] = MarkMoments.of(marks, level.share, carried)
                carried = moments[place].support_variance
        return moments

    def suspicious(self, name: str, classes: Sequence[str]) -> list[SuspiciousLabel]:
        """List the rows whose label is improbable to a learner that does not see them."""
        last = self.levels[-1]
        if name not in last.probabilities:
            return []
        held_out = HeldOut(last.query_rows, last.probabilities[name])
        return suspicious_labels(held_out, self.rows.class_indices, classes)

    def confusions(self, name: str) -> list[tuple[int, int, int]]:
        """Count wrong answers of leave-one-out: (true class, answer, count), in falling order."""
        last = self.levels[-1]
        if name not in last.answers:
            return []
        counts = np.zeros((self.rows.ways, self.rows.ways), dtype=np.int64)
        np.add.at(counts, (self.rows.class_indices[last.query_rows], last.answers[name]), 1)
        np.fill_diagonal(counts, 0)
        pairs = np.argwhere(counts)
        order = np.argsort(-counts[tuple(pairs.T)], kind="stable")
        return [
            (int(true), int(answer), int(counts[true, answer])) for true, answer in pairs[order]
        ]


def own_curve(
    rows: Rows,
    learners: Mapping[str, Inference],
    *,
    splits: int = SPLITS,
    seed: int = 0,
    device: torch.device | str = "cpu",
    counted: NDArray[np.bool_] | None = None,
    model: AnyModel | None = None,
    on_progress: OnProgress | None = None,
) -> OwnCurve:
    """Measure all learners on the same random splits of the rows, and by leave-one-out.

    A learner that cannot solve such tasks does not stop the others. `counted` (N,) is a mask of the
    rows on which accuracy is measured, all of them by default. Batches hold as many splits as
    `model` answers at once, by default the shipped one. `on_progress` counts the splits that
    all learners have answered.
    """
    check_rows(rows)
    counted = np.ones(len(rows), dtype=bool) if counted is None else counted
    levels = [
        Level(rows, [random_splits(rows, shots, splits, seed)], shots)
        for shots in shot_series(rows)
    ]
    levels.append(Level(rows, leave_out_splits(rows), None))
    panel = _Panel(learners, torch.from_numpy(rows.features).to(device), model or load_default())
    done, total = 0, sum(level.count for level in levels)
    for level in levels:
        for count in panel.ask(level):
            done += count
            if on_progress is not None:
                on_progress(done, total)
    return OwnCurve(rows, tuple(learners), tuple(levels), panel.failures, counted)


@dataclass(frozen=True, eq=False)
class _Panel:
    """The learners to measure, with the rows on their device."""

    learners: Mapping[str, Inference]
    features: torch.Tensor
    model: AnyModel
    """The model whose memory limits the size of a batch."""
    failures: dict[str, str] = field(default_factory=dict)

    def ask(self, level: Level) -> Iterator[int]:
        """Let all learners answer a level in batches; yield the number of splits of each batch."""
        answers: dict[str, list[torch.Tensor]] = {name: [] for name in self.learners}
        for turn, batch in enumerate(self._batches(level)):
            episode = _episode(self.features, level.rows, batch)
            for name in [name for name in answers if name not in self.failures]:
                answer = ask(self.learners[name], episode, turn, name=name)
                if isinstance(answer, Cannot):
                    self.failures[name] = str(answer)
                else:
                    answers[name].append(answer.flatten(0, 1).cpu())
            yield batch.count
        for name in [name for name in answers if name not in self.failures]:
            log_probabilities = torch.cat(answers[name])
            level.answers[name] = log_probabilities.argmax(dim=-1).numpy()
            if level.shots is None:
                level.probabilities[name] = log_probabilities.double().softmax(dim=-1).numpy()

    def _batches(self, level: Level) -> Iterator[Splits]:
        """Group splits into batches of as many as the model answers at once."""
        for splits in level.splits:
            sizes = splits.support.shape[1], splits.query.shape[1]
            yield from splits.chunks(episodes_at_once(self.model, *sizes, level.rows.ways))


def _episode(features: torch.Tensor, rows: Rows, splits: Splits) -> Episode:
    """Gather the rows of a batch of splits into episodes, one per split."""
    support, query = (torch.from_numpy(each) for each in (splits.support, splits.query))
    classes = torch.from_numpy(rows.class_indices)
    return Episode(
        support=Support(
            features=features[support.to(features.device)],
            class_indices=classes[support].to(features.device),
            ways=rows.ways,
        ),
        query=Query(features=features[query.to(features.device)], class_indices=classes[query]),
    )
