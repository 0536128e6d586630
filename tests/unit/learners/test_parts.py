import math

import numpy as np
import pytest
import torch
from torch import Tensor

from unitail import TailClassifier
from unitail.errors import InvalidConfig, WrongWidth
from unitail.framework.episode import Support
from unitail.learners.in_context import InContextLearner
from unitail.learners.parts import PartsLearner, multiplied
from unitail.learners.pretrained import load_default

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1, 2], [6, 4, 2])
CENTRES = 2 * RNG.normal(size=(3, 5))
X = CENTRES[Y] + RNG.normal(size=(12, 5))
Q = CENTRES[[0, 1, 2, 2]] + RNG.normal(size=(4, 5))
SHARES = torch.tensor([[[0.5, 1 / 3, 1 / 6]]]).double().log()


def _support(rows: np.ndarray) -> Support:
    return Support(
        features=torch.from_numpy(rows)[None], class_indices=torch.from_numpy(Y)[None], ways=3
    )


def _learner(*widths: int) -> PartsLearner:
    return PartsLearner(InContextLearner(load_default().double()), widths)


def _queries(rows: np.ndarray) -> Tensor:
    return torch.from_numpy(rows)[None]


def test_the_rule_is_as_it_is_written() -> None:
    learner = _learner(2, 3)
    alone = [
        learner.learner.infer(_support(X[:, part]), _queries(Q[:, part])).double()
        for part in (slice(2), slice(2, 5))
    ]
    wanted = SHARES + sum(each - SHARES for each in alone) / math.sqrt(2)
    wanted = wanted - wanted.logsumexp(dim=-1, keepdim=True)
    torch.testing.assert_close(learner.infer(_support(X), _queries(Q)).double(), wanted)


def test_parts_that_know_nothing_leave_the_shares_and_what_others_say() -> None:
    """The shares count once, however many parts there are."""
    said = torch.tensor([[[0.7, 0.2, 0.1]]]).double().log()
    torch.testing.assert_close(multiplied([SHARES] * 3, SHARES), SHARES)
    torch.testing.assert_close(multiplied([said], SHARES), said)
    pair = multiplied([said, SHARES], SHARES)
    assert (pair.argmax(dim=-1) == said.argmax(dim=-1)).all()


def test_the_order_of_parts_changes_nothing() -> None:
    order = [2, 3, 4, 0, 1]
    one = _learner(2, 3).infer(_support(X), _queries(Q))
    other = _learner(3, 2).infer(_support(X[:, order]), _queries(Q[:, order]))
    torch.testing.assert_close(one, other)


def test_what_labelled_rows_add_is_added_up_over_parts() -> None:
    hypothesis = _learner(2, 3).fit(_support(X))
    classes = torch.tensor([[0, 1, 2, 2]])
    each = [
        part.contributions(_queries(Q[:, columns]), classes)
        for part, columns in zip(hypothesis.each, (slice(2), slice(2, 5)), strict=True)
    ]
    torch.testing.assert_close(
        hypothesis.contributions(_queries(Q), classes), (each[0] + each[1]) / math.sqrt(2)
    )


def test_parts_are_as_wide_as_the_vectors() -> None:
    with pytest.raises(WrongWidth, match=r"got parts of 2, 2 columns, vectors of 5;.*Give the col"):
        _learner(2, 2).fit(_support(X))


def test_a_part_that_says_nothing_does_little_harm() -> None:
    """Beside five telling columns, a hundred that tell nothing, in larger units."""
    rng = np.random.default_rng(1)
    y, asked = np.arange(30) % 3, np.arange(300) % 3
    rows, queries = (
        np.hstack(
            [CENTRES[each] + rng.normal(size=(len(each), 5)), rng.normal(size=(len(each), n)) * 4]
        )
        for each, n in ((y, 100), (asked, 100))
    )
    right = [
        (TailClassifier(scale="none", parts=parts).fit(rows, y).predict(queries) == asked).mean()
        for parts in (None, [5, 100])
    ]
    assert right[1] > right[0] + 0.1


@pytest.mark.parametrize("parts", [[5], [0, 5], [2.5, 2.5], "auto", [[2, 3]]])
def test_parts_that_are_none_are_refused(parts: object) -> None:
    with pytest.raises(InvalidConfig, match=r"parts .*such as \[1280, 384\]"):
        TailClassifier(parts=parts).fit(X, Y)


@pytest.mark.parametrize("scale", ["auto", "none", "standard"])
def test_what_is_missing_in_a_part_is_filled_in(scale: str) -> None:
    """By the median; no column indicates it."""
    holes, asked = X.copy(), Q.copy()
    holes[0, 1] = holes[7, 4] = asked[0, 1] = asked[1, 0] = np.nan
    classifier = TailClassifier(parts=[2, 3], scale=scale, device="cpu").fit(holes, Y)
    filled = [
        np.where(np.isnan(each), np.nanmedian(holes, axis=0), each) for each in (holes, asked)
    ]
    if scale == "standard":
        mean, deviation = np.nanmean(holes, axis=0), np.nanstd(holes, axis=0)
        filled = [(each - mean) / deviation for each in filled]
    known = TailClassifier(parts=[2, 3], device="cpu").fit(filled[0], Y)
    np.testing.assert_allclose(
        classifier.predict_proba(asked), known.predict_proba(filled[1]), atol=1e-9
    )
    np.testing.assert_allclose(classifier.novelty(asked), known.novelty(filled[1]), atol=1e-9)
    np.testing.assert_array_equal(classifier.predict_set(asked), known.predict_set(filled[1]))
