"""Relations between feature vectors: all that the relational model sees of them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.relational.channels import stack_channels
from unitail.relational.geometry import Geometry
from unitail.relational.operators import leave_one_out, solve, stack_kernels


@dataclass(frozen=True, eq=False)
class Relations:
    """How some vectors (rows) relate to others (columns)."""

    channels: Tensor
    """(B, channels, rows, seen): the seen are those whose tokens may be looked at."""
    operators: Tensor
    """(B, operators, rows, n): the n labelled vectors."""

    def to(self, dtype: torch.dtype) -> "Relations":
        """Enter the precision of a network."""
        return Relations(self.channels.to(dtype), self.operators.to(dtype))


@dataclass(frozen=True, eq=False)
class Frame:
    """The vectors that all others are related to.

    The first n of the seen vectors are labelled. Isolated queries see the support, and statistics
    are the support's; joint ones see all vectors, and statistics are those of all.
    """

    geometry: Geometry
    num_labelled: int
    origin: bool
    """Whether angles from the origin count."""
    solutions: Tensor
    """P for each operator: (B, operators, n, n)."""

    def relate(self, features: Tensor) -> Relations:
        """Relate other vectors (B, m, d_T) to the seen ones."""
        compared = self.geometry.compare(features)
        return Relations(
            channels=stack_channels(compared, origin=self.origin),
            operators=stack_kernels(compared, self.num_labelled) @ self.solutions,
        )


def relate(features: Tensor, num_labelled: int, *, origin: bool) -> tuple[Frame, Relations]:
    """Relate vectors (B, seen, d_T), of which the first are labelled, to each other.

    No label counts for the vector that has it.
    """
    geometry, compared = Geometry.of(features, origin=origin)
    kernels = stack_kernels(compared, num_labelled)  # (B, operators, seen, n)
    solutions = solve(kernels[:, :, :num_labelled])
    others = kernels[:, :, num_labelled:] @ solutions
    relations = Relations(
        channels=stack_channels(compared, origin=origin),
        operators=torch.cat([leave_one_out(solutions), others], dim=2),
    )
    return Frame(geometry, num_labelled, origin, solutions), relations
