import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.geometry import Centre, Comparison, Geometry, GeometrySettings
from unitail.relational.regressions import (
    FURTHER,
    NUM_RIDGES,
    OPERATORS,
    invert,
    leave_one_out,
    solve,
    stack_kernels,
)

VALUES = torch.randn(7, 3, generator=stream(2), dtype=torch.float64)


def vectors(count: int, seed: int = 0) -> Tensor:
    return torch.randn(2, count, 6, generator=stream(seed), dtype=torch.float64) + 0.5


def ridge(operator: int) -> KernelRidge:
    return KernelRidge(alpha=(OPERATORS + FURTHER)[operator].penalty, kernel="precomputed")


def plain_kernel(operator: int, compared: Comparison) -> Tensor:
    """Write the kernel of an operator plainly, for the first episode."""
    kinds = (Centre.SHRUNK, Centre.SHRUNK, Centre.MEAN, Centre.MEAN, 1.0)
    kind = (*kinds, Centre.DIRECTION, Centre.DIRECTION, 5.0, 25.0)[operator]
    if isinstance(kind, Centre):
        return compared.cosines[kind, 0]
    return (-kind * compared.distances[0]).exp()


def test_penalties_are_these_and_in_this_order() -> None:
    """Trained weights belong to places in this list."""
    assert [operator.penalty for operator in OPERATORS] == [0.02, 0.3, 0.1, 2.0, 0.02]
    assert [operator.penalty for operator in FURTHER] == [0.03, 0.3, 0.2, 0.5]


@pytest.mark.parametrize("operator", range(NUM_RIDGES))
def test_an_operator_is_kernel_ridge_regression(operator: int) -> None:
    geometry, own = Geometry.of(vectors(7))
    compared = geometry.compare(vectors(4, seed=1))
    solutions = solve(stack_kernels(own, 7))
    carried = (stack_kernels(compared, 7) @ solutions)[0, operator] @ VALUES
    fitted = ridge(operator).fit(plain_kernel(operator, own), VALUES)
    expected = fitted.predict(plain_kernel(operator, compared))
    torch.testing.assert_close(carried, torch.from_numpy(expected))


@pytest.mark.parametrize("operator", range(NUM_RIDGES))
def test_a_labelled_vector_hears_what_the_others_say_without_it(operator: int) -> None:
    _, own = Geometry.of(vectors(7))
    carried = leave_one_out(solve(stack_kernels(own, 7)))[0, operator] @ VALUES
    gram = plain_kernel(operator, own)
    for out in range(7):
        kept = [index for index in range(7) if index != out]
        fitted = ridge(operator).fit(gram[kept][:, kept], VALUES[kept])
        expected = fitted.predict(gram[[out]][:, kept])[0]
        torch.testing.assert_close(carried[out], torch.from_numpy(expected))


def test_only_labelled_vectors_are_in_a_kernel() -> None:
    _, own = Geometry.of(vectors(9))
    assert torch.equal(stack_kernels(own, 5), stack_kernels(own, 9)[..., :5])


@pytest.mark.parametrize("away", [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 0.0])
def test_a_labelled_vector_next_to_the_mean_does_no_harm(away: float) -> None:
    corners = torch.tensor([[[1.0, 0], [-1, 0], [0, 1], [0, -1], [away, 0]]])
    geometry, own = Geometry.of(corners, GeometrySettings(origin=False))
    solutions = solve(stack_kernels(own, 5))
    assert leave_one_out(solutions).isfinite().all()
    assert (stack_kernels(geometry.compare(corners), 5) @ solutions).abs().max() < 10


def test_what_rounding_made_indefinite_is_inverted_and_no_other_changed() -> None:
    """Sums over many rows of few kinds, in single precision, lose more than a penalty adds."""
    rows = torch.randn(2, 4, generator=stream(0), dtype=torch.float64)
    fine = torch.eye(4, dtype=torch.float64)
    broken = 5000 * rows.mT @ rows - 2e-3 * fine
    assert torch.linalg.eigvalsh(broken).min() < 0
    one, other = invert(torch.stack([broken, fine]))
    assert torch.equal(other, fine)
    assert torch.isfinite(one).all()
    assert torch.linalg.eigvalsh(one).min() > 0
    with pytest.raises(RuntimeError, match="positive-definite"):
        invert(-fine)
