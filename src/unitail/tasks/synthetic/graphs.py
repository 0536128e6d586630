r"""Graphs of random functions, whose nodes depend on each other like the columns of a table.

Roots come first; each layer adds nodes that are random functions of a few earlier nodes, each
standardised over the rows of an episode, with independent noise. A function is one of

    linear      Σ w_p x_p
    quadratic   Σ w_p (x_p - c_p)²
    smooth      Σ_h a_h cos(ω_h · x + φ_h), a Gaussian process in random features
    tree        a value for each leaf; every level splits at a threshold of one input
    steps       a value for each interval of Σ w_p x_p
    product     (Σ v_p x_p) (Σ w_p x_p)

A layer has the same kind of function in all episodes of a batch, while inputs, weights, thresholds
and values are drawn per episode. So episodes are computed in parallel, without a loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from unitail.randomness import PerEpisode, RangeLaw, draw_between, pick

MAX_PARENTS = 4
"""Largest number of inputs of a function; a tree has one per level."""
WAVES = 16
"""Number of random features of a smooth function."""
FREQUENCIES = (0.3, 2.0)
"""Range of ω for smooth functions, log-uniform, in radians per deviation of an input."""
DEPTH = 3
"""Number of levels of a tree."""
STEPS = 5
"""Number of intervals of a step function."""
MIN_DEVIATION = 1e-6
"""A column with a smaller deviation counts as constant and becomes zero."""
ROOTS = (1, 16)
"""Range of the number of roots, log-uniform."""
LAYERS = (1, 4)
"""Range of the number of layers."""
LAYER_NODES = (2, 16)
"""Range of the number of nodes in a layer, log-uniform."""
NOISE = (0.003, 0.3)
"""Range of a node's noise, in standard deviations, log-uniform."""


class Function(StrEnum):
    """The kinds of functions."""

    LINEAR = "linear"
    QUADRATIC = "quadratic"
    SMOOTH = "smooth"
    TREE = "tree"
    STEPS = "steps"
    PRODUCT = "product"


def standardised(values: Tensor) -> Tensor:
    """Scale each column of (B, T, count) to mean 0 and standard deviation 1 over the rows."""
    centred = values - values.mean(dim=1, keepdim=True)
    deviation = centred.square().mean(dim=1, keepdim=True).sqrt()
    return torch.where(deviation > MIN_DEVIATION, centred / deviation.clamp_min(MIN_DEVIATION), 0)


def draw_parents(allowed: Tensor, count: int, numbers: PerEpisode) -> Tensor:
    """Draw a mask of the inputs each function depends on, among the allowed (B, inputs, 1).

    Each function has between 1 and `MAX_PARENTS` inputs; the mask is (B, inputs, count).
    """
    keys = numbers.uniform_matrix(allowed.shape[1], count).masked_fill(~allowed, 2.0)
    wanted = 1 + (MAX_PARENTS * numbers.uniform_matrix(1, count)).floor()
    places = keys.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    return (places < wanted) & allowed


def draw_weights(allowed: Tensor, count: int, numbers: PerEpisode) -> Tensor:
    """Draw unit-length weights on a few inputs for each function: (B, inputs, count)."""
    weights = numbers.normal(allowed.shape[1], count) * draw_parents(allowed, count, numbers)
    lengths: Tensor = weights.norm(dim=1, keepdim=True).clamp_min(MIN_DEVIATION)
    return weights / lengths


def _linear(inputs: Tensor, allowed: Tensor, count: int, numbers: PerEpisode) -> Tensor:
    return inputs @ draw_weights(allowed, count, numbers)


def _quadratic(inputs: Tensor, allowed: Tensor, count: int, numbers: PerEpisode) -> Tensor:
    centred = inputs - 0.5 * numbers.normal(1, inputs.shape[2])
    return centred.square() @ draw_weights(allowed, count, numbers)


def _smooth(inputs: Tensor, allowed: Tensor, count: int, numbers: PerEpisode) -> Tensor:
    parents = draw_parents(allowed, count, numbers).repeat_interleave(WAVES, dim=2)
    frequencies = numbers.normal(inputs.shape[2], count * WAVES) * parents
    waves = inputs @ (frequencies * numbers.log_uniform(FREQUENCIES))
    waves = torch.cos(waves + 2 * torch.pi * numbers.uniform_matrix(1, count * WAVES))
    heights = numbers.normal(1, count * WAVES)
    return (waves * heights).view(*inputs.shape[:2], count, WAVES).sum(dim=3)


def _tree(inputs: Tensor, allowed: Tensor, count: int, numbers: PerEpisode) -> Tensor:
    keys = numbers.uniform_matrix(inputs.shape[2], count * DEPTH).masked_fill(~allowed, 2.0)
    split_at = keys.argmin(dim=1, keepdim=True).expand(-1, inputs.shape[1], -1)
    over = inputs.gather(2, split_at) > 0.7 * numbers.normal(1, count * DEPTH)
    powers = 2 ** torch.arange(DEPTH, device=inputs.device)
    leaves = (over.view(*inputs.shape[:2], count, DEPTH) * powers).sum(dim=3)  # (B, T, count)
    return look_up(numbers.normal(2**DEPTH, count), leaves)


def _steps(inputs: Tensor, allowed: Tensor, count: int, numbers: PerEpisode) -> Tensor:
    values = _linear(inputs, allowed, count, numbers)
    return look_up(numbers.normal(STEPS, count), levels_of(values, STEPS, numbers))


def _product(inputs: Tensor, allowed: Tensor, count: int, numbers: PerEpisode) -> Tensor:
    first, second = (_linear(inputs, allowed, count, numbers) for _ in range(2))
    return first * second


FUNCTIONS: dict[Function, Callable[[Tensor, Tensor, int, PerEpisode], Tensor]] = {
    Function.LINEAR: _linear,
    Function.QUADRATIC: _quadratic,
    Function.SMOOTH: _smooth,
    Function.TREE: _tree,
    Function.STEPS: _steps,
    Function.PRODUCT: _product,
}
"""Map inputs (B, T, inputs), with the mask of allowed ones (B, inputs, 1), to (B, T, count)."""


def levels_of(values: Tensor, levels: int, numbers: PerEpisode) -> Tensor:
    """Bin standardised values (B, T, count) at random thresholds: integers below `levels`."""
    thresholds = numbers.normal(levels - 1, values.shape[2])  # (B, levels - 1, count)
    return (values.unsqueeze(2) > thresholds.unsqueeze(1)).sum(dim=2)


def look_up(table: Tensor, levels: Tensor) -> Tensor:
    """Look up levels (B, T, count) in a table of values (B, levels, count): (B, T, count)."""
    return table.gather(1, levels)


def draw_roots(rows: int, count: int, numbers: PerEpisode) -> Tensor:
    """Draw independent columns (B, rows, count): normal, uniform or bimodal."""
    normal, kind = numbers.normal(rows, count), numbers.uniform_matrix(1, count)
    uniform = torch.erf(normal / 2**0.5) * 3**0.5
    bimodal = normal.sign() + 0.3 * numbers.normal(rows, count)
    return torch.where(kind < 0.5, normal, torch.where(kind < 0.75, uniform, bimodal))


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The layout shared by the graphs of all episodes of a batch."""

    roots: int
    layers: tuple[tuple[Function, int], ...]
    """Kind and number of functions in each layer."""

    @classmethod
    def draw(cls, functions: Sequence[Function], generator: torch.Generator) -> "Graph":
        """Draw the sizes of the layers and their kinds of function."""
        logarithmic = RangeLaw.LOGARITHMIC
        layers = tuple(
            (pick(functions, generator), draw_between(LAYER_NODES, generator, logarithmic))
            for _ in range(draw_between(LAYERS, generator))
        )
        return cls(roots=draw_between(ROOTS, generator, logarithmic), layers=layers)

    def grow(self, roots: Tensor, numbers: PerEpisode) -> Tensor:
        """Compute all nodes from the roots (B, T, roots): (B, T, nodes)."""
        nodes = standardised(roots)
        for function, count in self.layers:
            allowed = torch.ones_like(nodes[:, 0, :, None], dtype=torch.bool)
            values = standardised(FUNCTIONS[function](nodes, allowed, count, numbers))
            noise = numbers.log_uniform(NOISE) * numbers.normal(nodes.shape[1], count)
            nodes = torch.cat([nodes, standardised(values + noise)], dim=2)
        return nodes
