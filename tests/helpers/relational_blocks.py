"""Blocks of the relational model with weights that all matter, and something to feed them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.block import FusedBlock
from unitail.relational.config import RelationalConfig
from unitail.relational.regressions import NUM_CANDIDATES, NUM_OPERATORS
from unitail.relational.relations import Relations

CONFIG = RelationalConfig(channels=6, heads=3, value_dim=2, mlp_dim=8, context_dim=5)


def random_block(seed: int = 0) -> FusedBlock:
    """Return a block in float64 whose every weight is drawn, biases and gates too."""
    block, generator = FusedBlock(CONFIG).double(), stream(seed, "block")
    for weight in block.parameters():
        torch.nn.init.normal_(weight, std=0.5, generator=generator)
    return block


@dataclass(frozen=True)
class BlockInputs:
    """What one block is called with."""

    z: Tensor
    seen: Tensor
    labels: Tensor
    size: Tensor
    relations: Relations


def random_inputs(
    shots: Sequence[int] = (2, 1, 3),
    *,
    seen_queries: int = 2,
    rows: int = 4,
    episodes: int = 2,
    seed: int = 0,
) -> BlockInputs:
    """Return inputs of a block with a support and some seen queries; labels are in random order."""
    generator = stream(seed, "heard")

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    ways, n = len(shots), sum(shots)
    classes = torch.arange(ways).repeat_interleave(torch.tensor(shots))
    # The first class lends an example to another one in every second episode, if it can.
    orders = [classes[torch.randperm(n, generator=generator)] for _ in range(episodes)]
    for order in orders[1::2]:
        order[(order == 0).nonzero()[1:]] = ways - 1
    seen = n + seen_queries
    return BlockInputs(
        z=normal(episodes, rows, ways, CONFIG.channels),
        seen=normal(episodes, seen, ways, CONFIG.channels),
        labels=F.one_hot(torch.stack(orders), ways).double(),
        size=normal(episodes, CONFIG.context_dim),
        relations=Relations(
            channels=normal(episodes, CONFIG.relations, rows, seen),
            operators=normal(episodes, NUM_OPERATORS, rows, n),
            candidates=normal(episodes, NUM_CANDIDATES, rows, ways),
        ),
    )
