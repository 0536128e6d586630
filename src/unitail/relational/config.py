"""The configuration of a relational model."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from unitail.configuration import ADDED_LATER, Dropped, require_at_least, take_words
from unitail.errors import InvalidConfig, require
from unitail.nn.episode_model import Visibility
from unitail.relational.geometry import GeometrySettings
from unitail.relational.relations import channels

VISIBILITIES = (Visibility.ISOLATED, Visibility.JOINT)
"""All but causal, as examples have no order."""


@dataclass(frozen=True, kw_only=True)
class RelationalConfig:
    """Everything that decides which function a relational model computes, but for its weights."""

    channels: int = 40
    """Width of the state of an example and class."""
    layers: int = 3
    """Number of blocks."""
    joint_layers: int = 3
    """Number of further blocks before the last, which joint answers alone use."""
    heads: int = 4
    """Attention heads in each block."""
    value_dim: int = 4
    """Width of the values of a head or operator for each class."""
    mlp_dim: int = 128
    """Hidden width of a block's MLP."""
    context_dim: int = 32
    """Width of the summary of an episode."""
    weighing_dim: int = 48
    """Hidden width of the network that weighs regressions."""
    angles_from_origin: bool = True
    """Whether angles at the origin count, in addition to those at the mean."""
    coordinate_limit: float | None = field(default=None, metadata=ADDED_LATER)
    """Limit on the coordinates of wide vectors, in root mean squares of the nonzero ones. With None
    there is none, and answers do not depend on the choice of coordinates."""
    joint_yields: bool = field(default=False, metadata=ADDED_LATER)
    """Whether joint answers, and those with a pool, yield to isolated ones where labelled rows show
    that classes are not clusters (`joint_share.py`)."""
    visibility: Visibility = Visibility.ISOLATED
    """The visibility that is used by default."""

    dropped: ClassVar[Dropped] = {"features_as": "relations", "projected_dim": None}
    """Features may no longer enter as tokens, too, for which `projected_dim` was the width."""
    max_ways: ClassVar[None] = None
    """There is no table of classes, so there is no limit."""
    max_support: ClassVar[None] = None
    """There are no positions, so there is no limit."""

    def __post_init__(self) -> None:
        take_words(self, visibility=Visibility)
        require_at_least(1, self, "channels", "layers", "heads", "value_dim")
        require_at_least(1, self, "mlp_dim", "context_dim", "weighing_dim")
        require_at_least(0, self, "joint_layers")
        if self.coordinate_limit is not None:
            allowed = "more than 0, or None; and angles_from_origin"
            positive = self.coordinate_limit > 0 and self.angles_from_origin
            require(positive, "coordinate_limit", got=self.coordinate_limit, allowed=allowed)
        if self.visibility not in VISIBILITIES:
            raise InvalidConfig(
                "visibility is unknown", got=self.visibility, allowed=", ".join(VISIBILITIES)
            )

    @property
    def num_layers(self) -> int:
        """Number of blocks, those for joint answers included."""
        return self.layers + self.joint_layers

    @cached_property
    def geometry(self) -> GeometrySettings:
        """What is measured of features."""
        return GeometrySettings(origin=self.angles_from_origin, limit=self.coordinate_limit)

    @cached_property
    def relations(self) -> int:
        """Number of channels of relations for each pair of vectors."""
        return len(channels(origin=self.angles_from_origin))


PRESETS = {
    "default": RelationalConfig(),
    "tiny": RelationalConfig(
        channels=8,
        layers=2,
        joint_layers=1,
        heads=2,
        value_dim=4,
        mlp_dim=16,
        context_dim=8,
        weighing_dim=8,
    ),
}
"""Models by name: the shipped one as it is trained (`tools/ship_default.py` turns on `joint_yields`
afterwards), and one for tests."""
