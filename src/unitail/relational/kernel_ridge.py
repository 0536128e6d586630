r"""Operators: kernel ridge regressions that carry values from labelled vectors to all others.

With Gram matrix G of a kernel among the labelled vectors, P = (G + lambda I)^-1 and g_x the kernel
between x and them,

    x takes g_x P times the values;
    labelled vector i takes its leave-one-out version, row i of I - diag(1 / P_ii) P.

That a row of I - diag(1 / P_ii) P is what ridge regression without vector i predicts for i is the
well-known shortcut for leave-one-out residuals, r_i = (P y)_i / P_ii.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.relational.geometry import Centre, Comparison

Kernel = Callable[[Comparison], Tensor]
"""From a comparison with labelled vectors to (B, rows, n)."""


@dataclass(frozen=True)
class Operator:
    """One ridge regression."""

    kernel: Kernel
    penalty: float
    """lambda: from hardly to heavily smoothed."""


@dataclass(frozen=True)
class CosineKernel:
    """The cosine of angles seen from a centre."""

    centre: Centre

    def __call__(self, compared: Comparison) -> Tensor:
        """Compare."""
        return compared.cosines[self.centre]


@dataclass(frozen=True)
class GaussianKernel:
    """exp(-sharpness squared distance / mean squared distance)."""

    sharpness: float

    def __call__(self, compared: Comparison) -> Tensor:
        """Compare."""
        return torch.exp(-self.sharpness * compared.distances)


OPERATORS = (
    Operator(CosineKernel(Centre.SHRUNK), penalty=0.02),
    Operator(CosineKernel(Centre.SHRUNK), penalty=0.3),
    Operator(CosineKernel(Centre.MEAN), penalty=0.1),
    Operator(CosineKernel(Centre.MEAN), penalty=2.0),
    Operator(GaussianKernel(1.0), penalty=0.02),
)
"""Those that blocks use, in the order of their weights."""
NUM_OPERATORS = len(OPERATORS)
FURTHER = (
    Operator(CosineKernel(Centre.DIRECTION), penalty=0.03),
    Operator(CosineKernel(Centre.DIRECTION), penalty=0.3),
    Operator(GaussianKernel(5.0), penalty=0.2),
    Operator(GaussianKernel(25.0), penalty=0.5),
)
"""Those that only answer. Sharp kernels are for tables whose classes no line divides."""
NUM_RIDGES = NUM_OPERATORS + len(FURTHER)


def stack_kernels(compared: Comparison, num_labelled: int) -> Tensor:
    """Return the kernel of each regression with the labelled vectors: (B, ridges, rows, n)."""
    labelled = compared.first(num_labelled)
    return torch.stack([ridge.kernel(labelled) for ridge in OPERATORS + FURTHER], dim=1)


def solve(gram: Tensor) -> Tensor:
    """Return P for each regression from its G: (B, ridges, n, n)."""
    return invert(regularised(gram))


def regularised(gram: Tensor) -> Tensor:
    """Return G + lambda I for each regression."""
    regular = gram.clone()
    penalties = constants([ridge.penalty for ridge in OPERATORS + FURTHER], gram)
    regular.diagonal(dim1=2, dim2=3).add_(penalties.unsqueeze(-1))
    return regular


def constants(numbers: Sequence[float], like: Tensor) -> Tensor:
    """Make a tensor of numbers where another lies; to copy them to a GPU would be to wait."""
    return torch.cat([like.new_full((1,), number) for number in numbers])


def invert(matrices: Tensor) -> Tensor:
    """Invert positive definite matrices (..., n, n).

    Not by `torch.linalg.inv`: on a CPU its batches of more than about 150 rows come out wrong with
    several threads (pytorch issues 141358 and 142815). And on a GPU not by `cholesky_inverse`,
    which takes one matrix after the other.
    """
    if not matrices.is_cuda:
        return torch.cholesky_inverse(torch.linalg.cholesky(matrices))
    factors = torch.linalg.cholesky_ex(matrices).L  # to check it would be to wait for the device
    unit = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    inverse: Tensor = torch.linalg.solve_triangular(factors, unit.expand_as(factors), upper=False)
    return inverse.mT @ inverse


def leave_one_out(solutions: Tensor) -> Tensor:
    """Return I - diag(1 / P_ii) P, whose diagonal is zero: (B, operators, n, n)."""
    rows = solutions / -solutions.diagonal(dim1=2, dim2=3).unsqueeze(-1)
    rows.diagonal(dim1=2, dim2=3).zero_()
    return rows
