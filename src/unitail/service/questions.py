"""Answers the rows of one or several requests, as values that JSON can represent."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.answer_defaults import COVERAGE
from unitail.service.classifiers import Version
from unitail.web.replies import Refusal
from unitail.wording import numbered


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
    classifier = version.classifier
    rows = np.concatenate([question.rows for question in questions])
    log_proba = classifier.predict_log_proba(rows)
    novelty = classifier.novelty(rows) if any(each.options.novelty for each in questions) else None
    ends = np.cumsum([len(question.rows) for question in questions])
    answers = []
    for question, end in zip(questions, ends, strict=True):
        own_rows = slice(end - len(question.rows), end)
        if novelty is None or not question.options.novelty:
            answers.append(_answers(question, log_proba[own_rows], None))
        else:
            answers.append(_answers(question, log_proba[own_rows], novelty[own_rows]))
    return answers


def _answers(
    question: QueryRows, log_proba: NDArray[np.float64], novelty: NDArray[np.float64] | None
) -> list[dict[str, Any]]:
    classes = question.version.classifier.classes_.tolist()
    probabilities, options = np.exp(log_proba), question.options
    sets = None
    if options.coverage is not None:
        sets = question.version.classifier.predict_set(
            question.rows, options.coverage, log_proba=log_proba
        )
    answers = []
    for place, row in enumerate(probabilities):
        best = int(row.argmax())
        answer: dict[str, Any] = {"label": classes[best], "probability": float(row[best])}
        if options.probabilities:
            answer["probabilities"] = row.tolist()
        if sets is not None:
            answer["set"] = [classes[index] for index in np.flatnonzero(sets[place])]
        if novelty is not None:
            answer["novelty"] = float(novelty[place])
        answers.append(answer)
    if options.influence:
        for answer, deciding in zip(answers, _deciding(question), strict=True):
            answer["influence"] = deciding
    return answers


def _deciding(question: QueryRows) -> list[list[dict[str, Any]]]:
    """Return the examples that decided each answer, the strongest first."""
    version, count = question.version, question.options.influence
    influence, labels = version.classifier.influence(question.rows), version.labels.tolist()
    influence = replace(influence, values=influence.values[:, version.places])
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
