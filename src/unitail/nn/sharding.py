"""What is sharded as one when a model is trained over several processes."""

from typing import ClassVar

from torch import nn


class ShardUnit(nn.Module):
    """A layer whose weights are gathered whenever one of its entry points is called."""

    entry_points: ClassVar[tuple[str, ...]] = ()
    """The methods beside `forward` that read weights and are called from outside."""
