"""Answers the rows of one or several requests, as values that JSON can represent.

The answer to a row must not depend on what is answered with it. Yet matrix products of other shapes
add up in another order, and differ in the last bits. So numbers are rounded to a *grid* that is far
coarser than that noise, and a row with a number so near the border between two grid points that
noise could decide is computed once more, alone: its answer is always that of the row alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.answer_defaults import COVERAGE
from unitail.estimator.influence import Influence
from unitail.nn.episode_model import Visibility
from unitail.service.classifiers import Version
from unitail.web.replies import Refusal
from unitail.wording import numbered


@dataclass(frozen=True, kw_only=True)
class RoundingGrid:
    """The numbers that answers are rounded to: some digits, and a smallest step."""

    digits: int
    """Significant decimal digits of the largest numbers, or of all."""
    decimals: int
    """Decimal places of the smallest step."""
    margin: float
    """Largest part of a number that may be noise."""
    floor: float = 1.0
    """Number of steps whose noise smaller numbers have, too."""

    def rounded(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nearest grid points."""
        scale = self._scale(values)
        return np.asarray(np.rint(values * scale) / scale + 0.0)  # no -0.0

    def is_doubtful(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return a mask of the values that noise could move to another grid point."""
        scaled = np.abs(values) * self._scale(values)
        to_border = np.abs(scaled - np.floor(scaled) - 0.5)
        return np.asarray(to_border <= self.margin * np.maximum(scaled, self.floor))

    def _scale(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the number of steps in a unit, a power of ten that is exact in binary."""
        with np.errstate(divide="ignore"):
            leading = np.floor(np.log10(np.abs(values)))
        places = np.minimum(self.digits - 1 - leading, self.decimals)
        return np.asarray(POWERS_OF_TEN[places.astype(np.int64)])


ALL = slice(None)
POWERS_OF_TEN = 10.0 ** np.arange(23)
"""All powers of ten that are exact in double precision."""
PROBABILITIES = RoundingGrid(digits=8, decimals=20, margin=1e-11)
"""Noise is below 1e-14; the margin makes about one number in a thousand doubtful.

A row is doubtful if one of its numbers is: 0.25 % of rows with 2 classes, 4 % with 50, 18 % with
250. That is the part of rows which are computed twice.
"""
NOVELTY = RoundingGrid(digits=6, decimals=6, margin=1e-8)
"""Distances between rows that nearly agree cancel, which amplifies noise.

The wider margin makes 0.95 % of rows doubtful.
"""
INFLUENCE = RoundingGrid(digits=22, decimals=8, margin=1e-12, floor=1e8)
"""Noise is below 1e-13, in sums of which the terms may be as large as 1: it is not a part of them.

The margin makes two numbers in ten thousand doubtful: 5 % of rows with 250 examples.
"""


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """What to return for each row besides its label."""

    probabilities: bool = True
    coverage: float | None = COVERAGE
    """Coverage of prediction sets; None for no sets."""
    novelty: bool = True
    influence: int = 0
    """Number of deciding examples to return with each answer."""


@dataclass(frozen=True, eq=False)
class QueryRows:
    """The rows of one request to one version."""

    version: Version
    rows: NDArray[Any]
    """Query vectors, (m, d_T)."""
    options: AnswerOptions

    def pieces(self, size: int) -> "list[QueryRows]":
        """Cut the rows into pieces, unless the answer to a row depends on the others."""
        is_isolated = self.version.classifier.visibility_ == Visibility.ISOLATED
        if len(self.rows) <= size or not is_isolated:
            return [self]
        starts = range(0, len(self.rows), size)
        return [replace(self, rows=self.rows[start : start + size]) for start in starts]

    @property
    def kind(self) -> tuple[int, str]:
        """Version and dtype: questions that share both can be answered together."""
        return id(self.version), self.rows.dtype.str


def check_rows(version: Version, rows: NDArray[Any]) -> None:
    """Refuse rows that cannot be answered, before they can fail other requests of their batch."""
    width = int(version.classifier.n_features_in_)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise Refusal(
            422,
            "the vectors are not as wide as the examples",
            got=numbered(int(rows.shape[-1]), "number") if rows.ndim else "no vectors",
            allowed=f"{width:,} numbers in each",
        )
    if np.isinf(rows).any():
        raise Refusal(
            422,
            "a vector has a value that is not finite",
            got=f"row {int(np.flatnonzero(np.isinf(rows).any(axis=1))[0])} (the first is 0)",
            allowed="finite numbers, and null where a value is missing",
        )


def answer(questions: Sequence[QueryRows]) -> list[list[dict[str, Any]]]:
    """Answer questions of one kind together; each gets the answers that it would get alone."""
    version = questions[0].version
    rows = np.concatenate([question.rows for question in questions])

    def probabilities_of(places: slice) -> NDArray[np.float64]:
        return np.exp(version.classifier.predict_log_proba(rows[places]))

    def novelty_of(places: slice) -> NDArray[np.float64]:
        return version.classifier.novelty(rows[places])[:, None]

    probabilities = _steady(version, probabilities_of(ALL), probabilities_of, PROBABILITIES)
    novelty = None
    if any(each.options.novelty for each in questions):
        novelty = _steady(version, novelty_of(ALL), novelty_of, NOVELTY)[:, 0]
    ends = np.cumsum([len(question.rows) for question in questions])
    answers = []
    for question, end in zip(questions, ends, strict=True):
        own_rows = slice(end - len(question.rows), end)
        if novelty is None or not question.options.novelty:
            answers.append(_answers(question, probabilities[own_rows], None))
        else:
            answers.append(_answers(question, probabilities[own_rows], novelty[own_rows]))
    return answers


def _steady(
    version: Version,
    values: NDArray[np.float64],
    compute: Callable[[slice], NDArray[np.float64]],
    grid: RoundingGrid,
) -> NDArray[np.float64]:
    """Return numbers (m, K) of rows on a grid, each row's as if it had been computed alone."""
    values = np.array(values, order="C")  # sums over it go by its order in memory
    if version.batches and len(values) > 1:
        for place in np.flatnonzero(grid.is_doubtful(values).any(axis=1)):
            values[place] = compute(slice(place, place + 1))[0]
    return grid.rounded(values)


def _answers(
    question: QueryRows,
    probabilities: NDArray[np.float64],
    novelty: NDArray[np.float64] | None,
) -> list[dict[str, Any]]:
    classes = question.version.classifier.classes_.tolist()
    options, sets = question.options, None
    if options.coverage is not None:
        with np.errstate(divide="ignore"):  # the logarithm of zero
            log_proba = np.log(probabilities)
        sets = question.version.classifier.predict_set(
            question.rows, options.coverage, log_proba=log_proba
        )
    answers = []
    for place, row in enumerate(probabilities):
        best = int(row.argmax())  # the first of classes that are equally probable
        answer: dict[str, Any] = {"label": classes[best], "probability": float(row[best])}
        if options.probabilities:
            answer["probabilities"] = row.tolist()
        if sets is not None:
            answer["set"] = [classes[index] for index in np.flatnonzero(sets[place])]
        if novelty is not None:
            answer["novelty"] = float(novelty[place])
        answers.append(answer)
    if options.influence:
        told = [answer["label"] for answer in answers]
        for answer, deciding in zip(answers, _deciding(question, told), strict=True):
            answer["influence"] = deciding
    return answers


def _deciding(question: QueryRows, told: Sequence[Any]) -> list[list[dict[str, Any]]]:
    """Return the examples that decided each answer, the strongest first."""
    version, count = question.version, question.options.influence
    labels = version.labels.tolist()

    def influence_of(places: slice) -> Influence:
        return version.classifier.influence(question.rows[places], label=told[places])

    def values_of(places: slice) -> NDArray[np.float64]:
        return influence_of(places).values[:, version.places]

    influence = influence_of(ALL)
    values = _steady(version, influence.values[:, version.places], values_of, INFLUENCE)
    influence = replace(influence, values=values)
    return [
        [
            {
                "example": place,
                "label": labels[place],
                "value": float(values[place]),
                "share": float(shares[place]),
            }
            for place in places.tolist()
        ]
        for places, values, shares in zip(
            influence.top(count), influence.values, influence.shares, strict=True
        )
    ]
