"""Answers to rows of one or several requests, as JSON carries them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.answer_defaults import COVERAGE
from unitail.nn.episode_model import Visibility
from unitail.service.classifiers import Version
from unitail.web.replies import Refusal
from unitail.wording import numbered


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """What a request wants to know of each row besides its label."""

    probabilities: bool = True
    coverage: float | None = COVERAGE
    """Of sets of labels; None is no sets."""
    novelty: bool = True
    influence: int = 0
    """How many of the examples that decided an answer are named."""


@dataclass(frozen=True, eq=False)
class QueryRows:
    """Rows of one request to one version."""

    version: Version
    rows: NDArray[Any]
    """(m, d_T)."""
    wanted: AnswerOptions

    @property
    def kind(self) -> tuple[int, str]:
        """Questions of one kind can be answered together."""
        return id(self.version), self.rows.dtype.str


def check_rows(version: Version, rows: NDArray[Any]) -> None:
    """Refuse rows that would fail, so that no other request fails with them."""
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
    """Answer questions of one kind; the answers of each are those that it gets alone."""
    version = questions[0].version
    classifier = version.classifier
    rows = np.concatenate([question.rows for question in questions])
    log_proba = classifier.predict_log_proba(rows)
    novelty = classifier.novelty(rows) if any(each.wanted.novelty for each in questions) else None
    ends = np.cumsum([len(question.rows) for question in questions])
    pieces = []
    for question, end in zip(questions, ends, strict=True):
        own = slice(end - len(question.rows), end)
        strange = novelty[own] if novelty is not None and question.wanted.novelty else None
        pieces.append(_answers(question, log_proba[own], strange))
    return pieces


def _answers(
    question: QueryRows, log_proba: NDArray[np.float64], novelty: NDArray[np.float64] | None
) -> list[dict[str, Any]]:
    classes = question.version.classifier.classes_.tolist()
    probabilities, wanted = np.exp(log_proba), question.wanted
    sets = None if wanted.coverage is None else _sets(question, log_proba, wanted.coverage)
    answers = []
    for place, row in enumerate(probabilities):
        best = int(row.argmax())
        one: dict[str, Any] = {"label": classes[best], "probability": float(row[best])}
        if wanted.probabilities:
            one["probabilities"] = row.tolist()
        if sets is not None:
            one["set"] = [classes[index] for index in np.flatnonzero(sets[place])]
        if novelty is not None:
            one["novelty"] = float(novelty[place])
        answers.append(one)
    if wanted.influence:
        for one, deciding in zip(answers, _deciding(question), strict=True):
            one["influence"] = deciding
    return answers


def _deciding(question: QueryRows) -> list[list[dict[str, Any]]]:
    """Name the examples that decided each answer, the strongest first."""
    version, count = question.version, question.wanted.influence
    told, labels = version.classifier.influence(question.rows), version.labels.tolist()
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
        for places, values, shares in zip(told.top(count), told.values, told.shares, strict=True)
    ]


def _sets(
    question: QueryRows, log_proba: NDArray[np.float64], coverage: float
) -> NDArray[np.bool_]:
    classifier = question.version.classifier
    if classifier.visibility_ == Visibility.ISOLATED:
        return classifier.predict_set(coverage=coverage, log_proba=log_proba)
    # Sets follow from isolated answers; the joint answer may be another class, and belongs in.
    sets = classifier.predict_set(question.rows, coverage)
    sets[np.arange(len(sets)), log_proba.argmax(axis=1)] = True
    return sets
