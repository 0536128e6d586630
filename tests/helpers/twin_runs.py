"""Two training runs that should end the same, up to a permutation."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from helpers.coordinates import permute_features
from helpers.short_runs import short_recipe
from unitail.framework.episode import Episode
from unitail.tail.model import Tail
from unitail.tasks.batches import Batch, EpisodeRanges, EpisodeSource
from unitail.tasks.synthetic.gaussian import GaussianTasks
from unitail.training.data import Sources
from unitail.training.processes import Processes
from unitail.training.trainer import Trainer

STEPS, WIDTH, PLACES, LABEL_DIM = 8, 12, 16, 8
TASKS = GaussianTasks(feature_dims=(WIDTH,), separation=(1.0, 4.0))


@dataclass(frozen=True, eq=False)
class ReorderedBatch(Batch):
    """A batch whose features come in another order, in double precision."""

    batch: Batch
    sigma: Tensor

    def sample(self, generator: torch.Generator, shard: slice | None = None) -> Episode:
        """Let the batch draw, and put the coordinates in the other order."""
        episode = self.batch.sample(generator, shard)
        support, query = episode.support, episode.query
        doubled = Episode(
            support=replace(support, features=support.features.double()),
            query=replace(query, features=query.features.double()),
        )
        return permute_features(doubled, self.sigma)


@dataclass(frozen=True)
class Reordered:
    """A source of such batches."""

    source: EpisodeSource
    sigma: Tensor

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> ReorderedBatch:
        """Let the source choose."""
        batch = self.source.choose_batch(ranges, generator)
        return ReorderedBatch(batch.shape, batch, self.sigma)


def trained(
    folder: Path,
    prepare: Callable[[Tail], None] = lambda model: None,
    *,
    features: Tensor | None = None,
    **config: object,
) -> tuple[Tail, Tail]:
    """Make a few steps in double precision; return the model as it began and as it ended.

    `prepare` changes the model before the first step; `features` is an order for the features.
    """
    recipe = short_recipe(
        model={"projected_dim": PLACES, "label_dim": LABEL_DIM, "visibility": "joint", **config}
    )
    order = torch.arange(WIDTH) if features is None else features
    source = Reordered(TASKS, order)
    trainer = Trainer(recipe, folder, Sources(source, source), processes=Processes(cpu=True))
    assert isinstance(trainer.model, Tail)
    trainer.model.double()
    prepare(trainer.model)
    begun = Tail(trainer.model.config).double()
    begun.load_state_dict(trainer.model.state_dict())
    for step in range(STEPS):
        trainer.step(step)
    return begun, trainer.model


def largest_change(one: Tail, other: Tail) -> float:
    """Return the largest difference between weights of the same name."""
    weights = other.state_dict()
    return max(
        float((value - weights[name]).abs().max()) for name, value in one.state_dict().items()
    )
