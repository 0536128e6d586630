from collections.abc import Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from helpers.builders import random_episode
from unitail.baselines import logistic_regression as module
from unitail.baselines.logistic_regression import Objective, logistic_regression, with_constant
from unitail.errors import CannotSolve

SHAPES = {
    "1-shot 5-way": ((1,) * 5, 40),
    "5-shot 5-way": ((5,) * 5, 40),
    "unequal shots": ((1, 7, 2), 20),
    "two classes": ((3, 3), 10),
    "two unequal classes": ((2, 6), 10),
    "20-way": ((3,) * 20, 100),
    "more rows than features": ((9, 6, 8), 3),
    "one feature": ((4, 5), 1),
}


def problem(
    shots: Sequence[int], feature_dim: int, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    """Return unit rows, their classes as one-hot rows, and further rows, of three episodes."""
    episode = random_episode(shots, feature_dim=feature_dim, episodes=3, queries=8)
    targets = F.one_hot(episode.support.class_indices, len(shots)).to(dtype)
    rows = F.normalize(episode.support.features, dim=-1).to(dtype)
    return rows, targets, F.normalize(episode.query.features, dim=-1).to(dtype)


def peers(rows: Tensor, targets: Tensor, queries: Tensor, strength: float) -> Tensor:
    """Return the probabilities of scikit-learn for each episode."""
    probabilities = []
    for own, classes, asked in zip(rows, targets.argmax(-1), queries, strict=True):
        peer = LogisticRegression(C=strength, tol=1e-10, max_iter=100_000)
        peer.fit(own.double().numpy(), classes.numpy())
        probabilities.append(peer.predict_proba(asked.double().numpy()))
    return torch.from_numpy(np.stack(probabilities))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("strength", [0.01, 1, 30])
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-5), (torch.float32, 1e-4)])
def test_probabilities_are_scikit_learns(
    shape: str, strength: float, dtype: torch.dtype, atol: float
) -> None:
    rows, targets, queries = problem(*SHAPES[shape], dtype)
    weights = logistic_regression(rows, targets, strength)
    probabilities = (with_constant(queries) @ weights).softmax(-1)
    expected = peers(rows, targets, queries, strength)
    torch.testing.assert_close(probabilities.double(), expected, atol=atol, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("strength", [0.01, 1, 300])
def test_the_gradient_is_zero_at_the_solution(shape: str, strength: float) -> None:
    rows, targets, _ = problem(*SHAPES[shape])
    weights = logistic_regression(rows, targets, strength).requires_grad_()
    losses = F.cross_entropy(
        (with_constant(rows) @ weights).mT, targets.argmax(-1), reduction="sum"
    )
    penalty = weights[:, :-1].pow(2).sum() / 2
    # With two classes the penalty is that of one vector of weights; see the docstring.
    (strength * losses + (2 if targets.shape[-1] == 2 else 1) * penalty).backward()
    assert weights.grad is not None
    assert weights.grad.norm() < 1e-11 * strength * rows.shape[1]


@pytest.mark.parametrize("strength", [0.1, 30, 1e6])
def test_float32_is_right_whatever_the_strength(strength: float) -> None:
    rows, targets, queries = problem((2, 3, 1), 20)
    exact = (with_constant(queries) @ logistic_regression(rows, targets, strength)).softmax(-1)
    coarse = logistic_regression(rows.float(), targets.float(), strength)
    probabilities = (with_constant(queries.float()) @ coarse).softmax(-1)
    torch.testing.assert_close(probabilities.double(), exact, atol=1e-4, rtol=0)


def test_an_episode_that_is_done_does_not_change_any_more() -> None:
    rows, targets, _ = problem((4, 5), 3)
    hard = rows[:1]
    easy = torch.zeros_like(hard)  # one step
    both = logistic_regression(torch.cat([easy, hard]), targets[:2], 300)
    torch.testing.assert_close(both[:1], logistic_regression(easy, targets[:1], 300))
    torch.testing.assert_close(both[1:], logistic_regression(hard, targets[:1], 300))
    assert both.isfinite().all()


@pytest.mark.parametrize("scale", [0.1, 1, 10, 100])
@pytest.mark.parametrize("count", [1, 9])
def test_the_step_stays_on_the_falling_side(scale: float, count: int) -> None:
    rows, targets, _ = (part.repeat(30, 1, 1) for part in problem((2, 3, 4), 6))
    rows = with_constant(rows) * (torch.arange(9) < count)[:, None]  # the others do not matter
    objective = Objective(rows, targets, 300)
    generator = torch.Generator().manual_seed(0)
    weights, direction = torch.randn(2, 90, 7, 3, generator=generator, dtype=rows.dtype)
    weights = scale * weights

    def probabilities(step: Tensor | float) -> Tensor:
        return (rows @ (weights + step * direction)).softmax(-1)

    def slope(step: Tensor | float) -> Tensor:
        errors = objective.errors(probabilities(step))
        gradient = objective.gradient(weights + step * direction, errors)
        return (gradient * direction).sum(dim=(1, 2), keepdim=True)

    direction = -direction * slope(0).sign()  # downhill
    step = objective.safe_step(probabilities(0), slope(0), direction, rows @ direction)
    assert (step > 0).all()
    assert (slope(0) < 0).all()
    # As the objective is convex it falls all the way to here.
    assert (slope(step) <= 1e-9 * slope(0).abs()).all()


@pytest.mark.parametrize(
    ("shape", "strength", "steps"),
    [("5-shot 5-way", 30, 120), ("20-way", 30, 110), ("unequal shots", 1e-5, 15)],
)
def test_the_steps_are_few(
    shape: str, strength: float, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", steps)
    rows, targets, _ = problem(*SHAPES[shape])
    assert logistic_regression(rows, targets, strength).isfinite().all()


def test_no_minimum_within_the_allowed_steps_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 3)
    rows, targets, _ = problem((2, 3), 6)
    with pytest.raises(CannotSolve, match=r"did not converge: got .* after 3 steps"):
        logistic_regression(rows, targets, 10)
