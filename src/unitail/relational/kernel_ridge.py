r"""Operators: kernel ridge regressions that carry values from labelled vectors to all others.

With Gram matrix G of a kernel among the labelled vectors, P = (G + lambda I)^-1 and g_x the kernel
between x and them,

    x takes g_x P times the values;
    labelled vector i takes its leave-one-out version, row i of I - diag(1 / P_ii) P.

That a row of I - diag(1 / P_ii) P is what ridge regression without vector i predicts for i is the
well-known shortcut for leave-one-out residuals, r_i = (P y)_i / P_ii.
"""

from collections.abc import Callable
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
    first_weight: float = 0.0
    """Of its answers in the scores before training."""


def cosine_kernel(centre: Centre) -> Kernel:
    """Return the cosine of angles seen from a centre."""
    return lambda compared: compared.cosines[centre]


def gaussian_kernel(compared: Comparison) -> Tensor:
    """Return exp(-squared distance / mean squared distance)."""
    return torch.exp(-compared.distances)


OPERATORS = (
    Operator(cosine_kernel(Centre.SHRUNK), penalty=0.02),
    Operator(cosine_kernel(Centre.SHRUNK), penalty=0.3, first_weight=1.5),
    Operator(cosine_kernel(Centre.MEAN), penalty=0.1, first_weight=1.5),
    Operator(cosine_kernel(Centre.MEAN), penalty=2.0),
    Operator(gaussian_kernel, penalty=0.02),
)
"""In the order of a block's weights."""
NUM_OPERATORS = len(OPERATORS)


def stack_kernels(compared: Comparison, num_labelled: int) -> Tensor:
    """Return the kernel of each operator with the labelled vectors: (B, operators, rows, n)."""
    labelled = compared.first(num_labelled)
    return torch.stack([operator.kernel(labelled) for operator in OPERATORS], dim=1)


def solve(gram: Tensor) -> Tensor:
    """Return P for each operator from its G: (B, operators, n, n).

    Not by `torch.linalg.inv`: on a CPU its batches of more than about 150 rows come out wrong with
    several threads (pytorch issues 141358 and 142815).
    """
    regular = gram.clone()
    penalties = gram.new_tensor([operator.penalty for operator in OPERATORS])
    regular.diagonal(dim1=2, dim2=3).add_(penalties.unsqueeze(-1))
    return torch.cholesky_inverse(torch.linalg.cholesky(regular))


def leave_one_out(solutions: Tensor) -> Tensor:
    """Return I - diag(1 / P_ii) P, whose diagonal is zero: (B, operators, n, n)."""
    rows = solutions / -solutions.diagonal(dim1=2, dim2=3).unsqueeze(-1)
    rows.diagonal(dim1=2, dim2=3).zero_()
    return rows
