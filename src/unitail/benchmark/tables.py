"""The results of a benchmark as tables: a row for each episode, each data set, each group."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.benchmark.report_extra import optional
from unitail.benchmark.run import Part
from unitail.evaluation.metrics import Calibration
from unitail.evaluation.result import Evaluation, Outcome, Scores

Frame = Any
"""A pandas frame; pandas is optional."""

WORDS = ("learner", "group", "encoder", "data_set", "protocol", "shares")
NUMBERS = ("ways", "shots", "queries")
SCORES = ("accuracy", "nll", "brier", "seconds", "memory")


def rows_table(parts: Sequence[Part]) -> Any:  # noqa: ANN401 - a table of an optional package
    """Return a pyarrow table with a row for each episode and learner that answered it."""
    arrow = optional("pyarrow")
    answered = [row for row in _each(parts) if row[1].outcome is Outcome.ANSWERED]
    counts = np.array([len(found.scores.hashes) for _, found in answered], np.int64)
    scores = Scores.joined([found.scores for _, found in answered])
    words = {name: _repeated([labels[name] for labels, _ in answered], counts) for name in WORDS}
    numbers = {
        name: np.repeat(np.array([labels[name] for labels, _ in answered], np.int16), counts)
        for name in NUMBERS
    }
    places = [np.arange(count, dtype=np.int32) for count in counts]
    columns = {
        **words,
        **numbers,
        "episode": np.concatenate([np.empty(0, np.int32), *places]),
        "hash": scores.hashes,
        **{name: getattr(scores, name) for name in SCORES},
    }
    return arrow.table(columns)


def calibration_frame(parts: Sequence[Part]) -> Frame:
    """Return a row for each bin of confidence of each learner on each data set."""
    rows = [
        {
            **labels,
            "bin": number,
            **{each.name: getattr(found.calibration, each.name)[number] for each in bins},
        }
        for bins in [fields(Calibration)]
        for labels, found in _each(parts)
        for number in range(len(found.calibration.counts))
        if found.outcome is Outcome.ANSWERED
    ]
    return optional("pandas").DataFrame(rows)


def summary_frame(parts: Sequence[Part]) -> Frame:
    """Return a row for each learner, data set and protocol."""
    rows = [{**labels, **_numbers(found)} for labels, found in _each(parts)]
    return optional("pandas").DataFrame(rows)


def group_frame(summary: Frame) -> Frame:
    """Average over the data sets of each group that a learner answered, all weighing the same.

    The half width is that of a mean of independent means, the root of the sum of the squares.
    """
    pandas = optional("pandas")
    keys = ["protocol", "group", "learner"]
    rows = []
    for labels, part in summary.groupby(keys, sort=False):
        answered = part[part["outcome"] == Outcome.ANSWERED.value]
        spread = np.sqrt(np.square(answered["half_width"]).sum()) / max(1, len(answered))
        means = {name: answered[name].mean() for name in ("accuracy", "nll", "brier", "ece", "ms")}
        rows.append(
            {
                **dict(zip(keys, labels, strict=True)),
                **means,
                "half_width": spread if len(answered) else np.nan,
                "answered": len(answered),
                "data_sets": len(part),
                "outcome": answered["outcome"].iloc[0]
                if len(answered)
                else part["outcome"].iloc[0],
            }
        )
    return pandas.DataFrame(rows)


def _each(parts: Sequence[Part]) -> Iterator[tuple[dict[str, Any], Evaluation]]:
    """Give every learner's result on every part, with what it is about."""
    for part in parts:
        for learner, found in part.evaluations.items():
            labels = {
                "learner": learner,
                "group": part.table.group,
                "encoder": part.table.table.encoder,
                "data_set": part.table.table.name,
                "protocol": part.protocol.name,
                "ways": found.protocol.ways,
                "shots": found.protocol.shots,
                "queries": found.protocol.queries,
                "shares": found.protocol.shares,
            }
            yield labels, found


def _numbers(found: Evaluation) -> dict[str, Any]:
    base = {"outcome": found.outcome.value, "reason": found.reason, "device": found.device}
    names = ("accuracy", "half_width", "episodes", "nll", "brier", "ece", "ms", "mib")
    if found.outcome is not Outcome.ANSWERED:
        return {**base, **dict.fromkeys(names, np.nan), "episodes": 0}
    accuracy = found.accuracy
    values = (
        *(accuracy.mean, accuracy.half_width, accuracy.count, found.nll.mean, found.brier.mean),
        *(found.calibration.error, found.milliseconds, found.memory),
    )
    return {**base, **dict(zip(names, values, strict=True))}


def _repeated(values: Sequence[str], counts: NDArray[np.int64]) -> Any:  # noqa: ANN401
    """Repeat words as a dictionary column."""
    arrow = optional("pyarrow")
    words = list(dict.fromkeys(values))
    numbers = np.array([words.index(value) for value in values], np.int16)
    return arrow.DictionaryArray.from_arrays(
        np.repeat(numbers, counts), arrow.array(words, arrow.string())
    )
