"""The configuration of a TAIL model, and presets."""

from dataclasses import dataclass

from unitail.configuration import require_at_least, take_words
from unitail.errors import require
from unitail.nn.episode_model import Normalisation, Visibility
from unitail.nn.random_projection import ProjectionKind, WidthReduction


@dataclass(frozen=True, kw_only=True)
class TailConfig:
    """All that determines the function of a TAIL model besides its weights.

    From the paper: all sizes (appendix D.2), the projection (4.1), the dictionary (4.2), and all
    queries in one sequence. Ours, where the paper is silent or differs: features are normalised;
    those wider than d_data are reduced to it; a linear layer maps tokens to the transformer's width
    if that differs; and answers are a softmax over the K slots in use, not over all M.
    """

    projected_dim: int = 1280
    """d_data, the width that features of any width are projected to."""
    label_dim: int = 256
    """d_label, the width of a label embedding."""
    hidden_dim: int = 1536
    """Width of the transformer; if it is not d_data + d_label, a linear layer maps tokens to it."""
    layers: int = 16
    """Number of transformer blocks."""
    heads: int = 16
    """Attention heads in each block."""
    mlp_dim: int = 3072
    """Hidden width of a block's MLP."""
    dictionary_size: int = 100
    """M, the largest number of classes in a task."""
    visibility: Visibility = Visibility.JOINT
    """Which tokens see which: joint in the paper; isolated queries get g(S, x) exactly."""
    projection: ProjectionKind = ProjectionKind.PERMUTATION
    """Distribution of the projection pi."""
    reduction: WidthReduction = WidthReduction.ORTHONORMAL
    """How features wider than d_data are reduced to it (ours)."""
    normalisation: Normalisation = Normalisation.SUPPORT
    """How features are scaled before the projection (ours)."""

    def __post_init__(self) -> None:
        take_words(
            self,
            visibility=Visibility,
            projection=ProjectionKind,
            reduction=WidthReduction,
            normalisation=Normalisation,
        )
        require_at_least(1, self, "projected_dim", "label_dim", "layers", "heads", "mlp_dim")
        require_at_least(2, self, "dictionary_size")
        require(
            self.hidden_dim >= 1 and self.hidden_dim % self.heads == 0,
            "hidden_dim",
            got=self.hidden_dim,
            allowed=f"a multiple of the {self.heads} heads",
        )

    @property
    def num_layers(self) -> int:
        """Number of transformer layers."""
        return self.layers

    @property
    def max_ways(self) -> int:
        """M."""
        return self.dictionary_size

    @property
    def max_support(self) -> None:
        """There are no positions, so there is no limit."""
        return

    @property
    def token_dim(self) -> int:
        """d_data + d_label, the width of a token before the input layer, if there is one."""
        return self.projected_dim + self.label_dim


PRESETS = {
    "paper": TailConfig(),
    "paper-large": TailConfig(dictionary_size=256),
    "small": TailConfig(
        label_dim=128,
        hidden_dim=512,
        layers=8,
        heads=8,
        mlp_dim=1024,
        visibility=Visibility.ISOLATED,
    ),
    "tiny": TailConfig(
        projected_dim=64,
        label_dim=32,
        hidden_dim=96,
        layers=3,
        heads=4,
        mlp_dim=192,
        dictionary_size=16,
        visibility=Visibility.ISOLATED,
    ),
}
"""Models by name. The two of the paper have joint queries. Ours have isolated ones: `small` trains
in minutes on a GPU, and `tiny` is for a CPU."""
