"""Results of a benchmark as rows: per episode, per data set and per group."""

import csv
import io
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unitail.benchmark.store import TableResult
from unitail.errors import optional
from unitail.evaluation.metrics import Calibration
from unitail.evaluation.result import Evaluation, Outcome, Scores

Row = TypeVar("Row")
Key = TypeVar("Key", bound=Hashable)
ArrowTable = Any
"""A table or column of pyarrow, which is optional and untyped."""

ALL_GROUPS = "all groups"
"""Name of the group of all data sets."""
WORDS = ("learner", "group", "encoder", "data_set", "protocol", "shares")
NUMBERS = ("ways", "shots", "queries")
LABELS = (*WORDS[:5], *NUMBERS, "shares")
"""Columns that identify a result."""
COLUMNS = (
    *(*LABELS, "outcome", "reason", "device"),
    *("accuracy", "half_width", "episodes", "nll", "brier", "ece", "ms", "mib", "mark"),
)
"""Columns of the summary, in order."""
SCORES = ("accuracy", "nll", "brier", "seconds", "memory")


@dataclass(frozen=True, kw_only=True)
class Means:
    """Mean scores of a learner; NaN unless it answered."""

    learner: str
    group: str
    protocol: str
    outcome: Outcome
    accuracy: float = math.nan
    half_width: float = math.nan
    """Half width of the 95 % interval of the accuracy."""
    nll: float = math.nan
    brier: float = math.nan
    ece: float = math.nan
    """Expected calibration error."""
    ms: float = math.nan
    """Milliseconds per episode."""


@dataclass(frozen=True, kw_only=True)
class DataSetMeans(Means):
    """Means over the episodes of a data set."""

    encoder: str
    data_set: str
    ways: int
    shots: int
    queries: int
    shares: str
    reason: str
    """Why there is no answer; empty if there is one."""
    device: str
    episodes: int = 0
    mib: float = math.nan
    mark: str = ""
    """An asterisk if classes may have the same meaning as training classes."""

    @property
    def title(self) -> str:
        """The name with its mark and the actual number of ways."""
        return f"{self.name}{self.mark}, {self.ways}-way"

    @property
    def name(self) -> str:
        """ENCODER/DATASET."""
        return f"{self.encoder}/{self.data_set}"


@dataclass(frozen=True, kw_only=True)
class GroupMeans(Means):
    """Unweighted means over the data sets of a group that the learner answered."""

    answered: int
    data_sets: int
    ways: str = ""
    """The actual number of ways, "2 to 5" if data sets differ."""

    @property
    def title(self) -> str:
        """The group with the actual number of ways."""
        return f"{self.group}, {self.ways}-way" if self.ways else self.group


def grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """Group rows by key, in order of the keys' first occurrence."""
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def data_set_means(results: Iterable[TableResult]) -> list[DataSetMeans]:
    """Return the means of each learner on each data set with each protocol."""
    return [row for row, _ in _each(results)]


def group_means(rows: Iterable[DataSetMeans]) -> list[GroupMeans]:
    """Average over the data sets of each group.

    The data sets are independent, so the half width of the mean is the root of the sum of squared
    half widths, over their number.
    """
    means = []
    rows = list(rows)
    ways = grouped(rows, lambda row: (row.protocol, row.group))
    for (protocol, group, learner), members in grouped(
        rows, lambda row: (row.protocol, row.group, row.learner)
    ).items():
        answered = [row for row in members if row.outcome is Outcome.ANSWERED]
        numbers: dict[str, float] = {}
        if answered:
            names = ("accuracy", "nll", "brier", "ece", "ms")
            numbers = {
                name: float(np.mean([getattr(row, name) for row in answered])) for name in names
            }
            spread = math.hypot(*(row.half_width for row in answered))
            numbers["half_width"] = spread / len(answered)
        means.append(
            GroupMeans(
                learner=learner,
                group=group,
                protocol=protocol,
                outcome=(answered or members)[0].outcome,
                answered=len(answered),
                data_sets=len(members),
                ways=_span([row.ways for row in ways[protocol, group]]),
                **numbers,
            )
        )
    return means


def summary_text(rows: Iterable[DataSetMeans]) -> str:
    """Return the rows as CSV; NaN becomes an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(_text(getattr(row, column)) for column in COLUMNS)
    return buffer.getvalue()


def read_summary(path: Path) -> list[DataSetMeans]:
    """Read the rows of a CSV file written by `summary_text`."""
    kinds: dict[str, Any] = {each.name: each.type for each in fields(DataSetMeans)}

    def value(name: str, text: str) -> Any:  # noqa: ANN401 - of the field's type
        return float(text or "nan") if kinds[name] is float else kinds[name](text)

    with path.open(newline="") as file:
        return [
            DataSetMeans(**{name: value(name, text) for name, text in row.items()})
            for row in csv.DictReader(file)
        ]


def pooled_calibration(results: Iterable[TableResult]) -> dict[str, dict[str, Calibration]]:
    """Pool each learner's calibration by protocol, over the data sets that it answered."""
    pooled: dict[str, dict[str, Calibration]] = {}
    for row, evaluation in _answered(results):
        by_protocol = pooled.setdefault(row.learner, {})
        by_protocol[row.protocol] = (
            by_protocol.get(row.protocol, Calibration.empty()) + evaluation.calibration
        )
    return pooled


def calibration_table(results: Iterable[TableResult]) -> ArrowTable:
    """Return a table with a row for each confidence bin of each learner on each data set."""
    names = [each.name for each in fields(Calibration)]
    rows = [
        {
            **{label: getattr(row, label) for label in LABELS},
            "bin": number,
            **{name: getattr(evaluation.calibration, name)[number] for name in names},
        }
        for row, evaluation in _answered(results)
        for number in range(len(evaluation.calibration.counts))
    ]
    return optional("pyarrow", extra="report").Table.from_pylist(rows)


def episode_table(results: Iterable[TableResult]) -> ArrowTable:
    """Return a table with a row for each episode and learner that answered it."""
    answered = list(_answered(results))
    rows = [row for row, _ in answered]
    counts = np.array([row.episodes for row in rows], np.int64)
    scores = Scores.joined([evaluation.scores for _, evaluation in answered])
    places = [np.arange(count, dtype=np.int32) for count in counts]
    columns = {
        **{name: _repeated_words([getattr(row, name) for row in rows], counts) for name in WORDS},
        **{
            name: np.repeat(np.array([getattr(row, name) for row in rows], np.int16), counts)
            for name in NUMBERS
        },
        "episode": np.concatenate([np.empty(0, np.int32), *places]),
        "hash": scores.hashes,
        **{name: getattr(scores, name) for name in SCORES},
    }
    return optional("pyarrow", extra="report").table(columns)


def _each(results: Iterable[TableResult]) -> Iterator[tuple[DataSetMeans, Evaluation]]:
    """Yield the means and the evaluation of every learner on every table."""
    for result in results:
        for learner, evaluation in result.evaluations.items():
            row = DataSetMeans(
                learner=learner,
                group=result.table.group,
                encoder=result.table.table.encoder,
                data_set=result.table.table.name,
                protocol=result.protocol.name,
                ways=evaluation.protocol.ways,
                shots=evaluation.protocol.shots,
                queries=evaluation.protocol.queries,
                shares=evaluation.protocol.shares,
                outcome=evaluation.outcome,
                reason=evaluation.reason,
                device=evaluation.device,
                mark="*" if result.table.overlap else "",
            )
            if evaluation.outcome is Outcome.ANSWERED:
                row = replace(
                    row,
                    accuracy=evaluation.accuracy.mean,
                    half_width=evaluation.accuracy.half_width,
                    episodes=evaluation.accuracy.count,
                    nll=evaluation.nll.mean,
                    brier=evaluation.brier.mean,
                    ece=evaluation.calibration.error,
                    ms=evaluation.milliseconds,
                    mib=evaluation.memory,
                )
            yield row, evaluation


def _answered(results: Iterable[TableResult]) -> Iterator[tuple[DataSetMeans, Evaluation]]:
    return (pair for pair in _each(results) if pair[1].outcome is Outcome.ANSWERED)


def _span(numbers: Sequence[int]) -> str:
    """Format a range of numbers as "5" or "2 to 5"."""
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def _text(value: object) -> str:
    """Format a cell of the summary."""
    if not isinstance(value, float):
        return str(value)
    return "" if math.isnan(value) else f"{value:.6g}"


def _repeated_words(words: Sequence[str], counts: NDArray[np.int64]) -> ArrowTable:
    """Repeat words, as a dictionary-encoded column."""
    arrow = optional("pyarrow", extra="report")
    distinct = list(dict.fromkeys(words))
    numbers = np.array([distinct.index(word) for word in words], np.int16)
    return arrow.DictionaryArray.from_arrays(
        np.repeat(numbers, counts), arrow.array(distinct, arrow.string())
    )
