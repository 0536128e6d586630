"""What is kept of a support that was read."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from unitail.framework.episode import Support
from unitail.nn.episode_model import Visibility
from unitail.nn.projection import Projection
from unitail.relational.class_lists import EVERY_CLASS, ClassList, Few, most_hopeful
from unitail.relational.fused_block import Kept
from unitail.relational.regressions import are_many
from unitail.relational.relations import Frame, Relations
from unitail.relational.weighing import Weights

LISTED = 32
"""Where classes are many, labelled rows have states for this many of them."""


@dataclass(frozen=True, eq=False)
class RelationalDraw:
    """pi, if features are tokens too; else there is nothing random."""

    projection: Projection | None = None

    def part(self, episodes: slice) -> Self:
        """Keep some episodes of the batch."""
        return type(self)(self.projection and self.projection.part(episodes))

    def to(self, device: torch.device | str) -> Self:
        """Move to a device."""
        return type(self)(self.projection and self.projection.to(device))


@dataclass(frozen=True, eq=False)
class Seen:
    """The examples that are looked at; the first n of them are labelled."""

    frame: Frame
    labels: Tensor
    """One-hot, (B, n, K)."""
    size: Tensor
    """What blocks are told of the size of the episode: (B, context_dim)."""
    weights: Weights
    """How the first answer is made, and how far it may be corrected."""
    layers: tuple[Kept, ...] = ()
    """What the first blocks have kept of them, or all."""

    def list_classes(self, relations: Relations) -> ClassList:
        """Choose the classes that each has a state for, if all are labelled."""
        if not are_many(*self.labels.shape[1:]):
            return EVERY_CLASS
        classes = self.labels.argmax(dim=2)
        near = relations.nearest(classes, self.labels.shape[2])
        hopes = most_hopeful(self.weights.first_answer(relations.candidates), near)
        return Few.best(hopes, LISTED, classes)


@dataclass(frozen=True, eq=False)
class ReadRelations:
    """A support set after it was read; if queries are to be seen too, it waits for them."""

    support: Support
    visibility: Visibility
    draw: RelationalDraw
    seen: Seen | None = None
    pooled: bool = False
    """Whether unlabelled rows were read with it, through the blocks for joint answers too."""
    alone: "ReadRelations | None" = None
    """The support read by itself, where joint answers yield to isolated ones."""
    joint_share: Tensor | None = None
    """How far what is said from more than the support counts beside that, (B, 1, 1)."""

    def weigh(self, alone: Tensor, joint: Tensor) -> Tensor:
        """Weigh what is said from the support by itself, and from more: (B, m, any)."""
        assert self.joint_share is not None
        return torch.lerp(alone, joint, self.joint_share.to(joint))
