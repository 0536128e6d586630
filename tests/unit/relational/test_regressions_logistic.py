from unittest.mock import patch

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from unitail.randomness import stream
from unitail.relational import regressions
from unitail.relational.regressions import LOGISTIC_PENALTIES, fit_logistic

WAYS, ROWS = 3, 12
DTYPES = (torch.float64, torch.float32)
CLASSES = torch.tensor([[0, 1, 2] * 4, [0, 0, 1, 2] * 3])
LABELS = torch.nn.functional.one_hot(CLASSES, WAYS).double()


def directions(count: int, seed: int = 0) -> Tensor:
    rows = torch.randn(2, count, 6, generator=stream(seed), dtype=torch.float64)
    return rows / rows.norm(dim=2, keepdim=True)


@pytest.mark.parametrize("place", range(len(LOGISTIC_PENALTIES)))
def test_a_regression_is_scikit_learns_without_intercept(place: int) -> None:
    support, query = directions(ROWS), directions(5, seed=1)
    with patch.object(regressions, "LOGISTIC_STEPS", 4000):
        fitted = fit_logistic(support @ support.mT, LABELS)
    scores = fitted.scores(query @ support.mT)[:, place]
    for episode in range(2):
        theirs = LogisticRegression(
            C=1 / LOGISTIC_PENALTIES[place], fit_intercept=False, tol=1e-10, max_iter=10_000
        ).fit(support[episode].numpy(), CLASSES[episode].numpy())
        expected = torch.from_numpy(theirs.decision_function(query[episode].numpy()))
        torch.testing.assert_close(scores[episode], expected, rtol=2e-3, atol=2e-3)


def test_a_few_steps_are_nearly_enough() -> None:
    support, query = directions(ROWS), directions(40, seed=1)
    kernel = query @ support.mT
    quick = fit_logistic(support @ support.mT, LABELS).scores(kernel)
    with patch.object(regressions, "LOGISTIC_STEPS", 2000):
        minimum = fit_logistic(support @ support.mT, LABELS).scores(kernel)
    agree = (quick.argmax(dim=-1) == minimum.argmax(dim=-1)).double().mean(dim=(0, 2))
    assert (agree > 0.85).all()


def test_what_is_left_out_depends_less_on_its_own_label() -> None:
    """It is one Newton step from a fit with all rows, the better the stronger the penalty."""
    support = directions(ROWS)
    gram = support @ support.mT
    changed = LABELS.clone()
    changed[:, 0] = changed[:, 0].roll(1, dims=-1)
    before, after = (fit_logistic(gram, labels) for labels in (LABELS, changed))
    left_out = (after.left_out - before.left_out)[:, :, 0].norm(dim=-1)
    fitted = (after.scores(gram) - before.scores(gram))[:, :, 0].norm(dim=-1)
    assert (left_out < 0.7 * fitted).all()
    assert (left_out[:, -1] < 0.3 * fitted[:, -1]).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_row_at_the_centre_scores_zero_for_all_classes(dtype: torch.dtype) -> None:
    """Not even by rounding, of which evidence would make a right or a wrong answer."""
    support = directions(ROWS).to(dtype)
    support[:, ::2] = 0
    left_out = fit_logistic(support @ support.mT, LABELS).left_out
    assert (left_out[:, :, ::2] == 0).all()
    assert (left_out[:, :, 1::2] != 0).all()


def test_left_out_scores_are_near_those_of_a_fit_without_the_row() -> None:
    support = directions(ROWS)
    gram = support @ support.mT
    scores = fit_logistic(gram, LABELS).left_out
    for row in range(ROWS):
        kept = [place for place in range(ROWS) if place != row]
        fitted = fit_logistic(gram[:, kept][:, :, kept], LABELS[:, kept])
        expected = fitted.scores(gram[:, [row]][:, :, kept])[:, :, 0]
        both = torch.stack([scores[:, -1, row].flatten(), expected[:, -1].flatten()])
        assert torch.corrcoef(both)[0, 1] > 0.95


def test_no_gradient_flows_and_the_dtype_is_the_grams() -> None:
    support = directions(ROWS).float().requires_grad_()
    fitted = fit_logistic(support @ support.mT, LABELS)
    assert fitted.coefficients.dtype is fitted.left_out.dtype is torch.float32
    assert not fitted.left_out.requires_grad


def test_single_precision_leaves_rows_out_as_double_does() -> None:
    """As it would not with the inverse of the steps in single precision."""
    classes = torch.arange(400) % 2
    rows = torch.randn(1, 400, 5, generator=stream(2), dtype=torch.float64)
    rows[0, classes == 1] += torch.linspace(-1, 1, 5, dtype=torch.float64)
    rows = rows / rows.norm(dim=2, keepdim=True)
    labels = torch.nn.functional.one_hot(classes, 2)[None]
    exact, single = (fit_logistic((rows @ rows.mT).to(kind), labels) for kind in DTYPES)
    torch.testing.assert_close(single.left_out.double(), exact.left_out, rtol=0, atol=1e-3)
