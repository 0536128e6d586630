"""Accuracy on episodes that training never sees, the same ones at every validation."""

from collections.abc import Iterator
from functools import cached_property
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from unitail.baselines.proto_head import ProtoHead
from unitail.framework.episode import Episode
from unitail.framework.statistics import MeanInterval
from unitail.framework.task import accuracy
from unitail.nn.episode_model import AnyModel, EpisodeDraw
from unitail.randomness import stream
from unitail.tasks.shapes import EpisodeRanges
from unitail.tasks.source import EpisodeSource
from unitail.training.data import draw_batch
from unitail.training.processes import Processes
from unitail.training.recipe import Recipe


class Validator:
    """Measures a model, one draw for each episode, beside prototypes on the same episodes."""

    def __init__(
        self,
        source: EpisodeSource,
        recipe: Recipe,
        model: AnyModel,
        processes: Processes,
    ) -> None:
        self.source = source
        self.config = recipe.validation
        self.episodes = recipe.episodes
        self.model = model
        self.processes = processes
        self.seed = recipe.training.seed
        self.visibilities = recipe.training.visibilities
        for shots in self.config.shots:  # what cannot be validated is refused before training
            source.choose_batch(self._ranges(shots, self.episodes.multiple), stream(self.seed))

    @torch.no_grad()
    def measure(self, distributed: nn.Module) -> dict[str, Any]:
        """Answer all episodes: mean and interval for each kind, and the mean of them."""
        table: dict[str, Any] = {}
        for visibility, shots in product(self.visibilities or (None,), self.config.shots):
            answers = (
                accuracy(distributed(episode, draw, visibility), _truth(episode))
                for episode, draw in self._batches(shots)
            )
            found = self._mean(answers)
            name = f"{shots}-shot" if visibility is None else f"{shots}-shot {visibility}"
            table[name] = {
                "accuracy": found.mean,
                "half_width": found.half_width,
                "episodes": found.count,
                "prototypes": self.prototypes[shots],
            }
        score = sum(row["accuracy"] for row in table.values()) / len(table)
        return {"score": score, "validation": table}

    @cached_property
    def prototypes(self) -> dict[int, float]:
        """Accuracy of prototypes of raw features on the same episodes, by shots."""
        learner = ProtoHead()
        return {
            shots: self._mean(
                accuracy(learner.infer(episode.support, episode.query.features), _truth(episode))
                for episode, _ in self._batches(shots)
            ).mean
            for shots in self.config.shots
        }

    def _batches(self, shots: int) -> Iterator[tuple[Episode, EpisodeDraw]]:
        """Draw this process's part of the episodes."""
        multiple = self.episodes.multiple
        tokens = self.config.ways * (shots + self.config.queries)
        size = max(1, self.episodes.tokens // tokens // multiple) * multiple
        for start in range(0, self.config.episodes, size):
            names = ("validation", shots, start)
            ranges = self._ranges(shots, min(size, self.config.episodes - start))
            batch = self.source.choose_batch(ranges, stream(self.seed, *names, "plan"))
            generator = stream(self.seed, *names, device=self.processes.device)
            shard = self.processes.shard_of(batch.shape)
            yield draw_batch(batch, self.model, generator, shard)

    def _ranges(self, shots: int, episodes: int) -> EpisodeRanges:
        config = self.config
        return EpisodeRanges.fixed(
            episodes=episodes, ways=config.ways, shots=shots, queries=config.queries
        )

    def _mean(self, parts: Iterator[Tensor]) -> MeanInterval:
        values = self.processes.gather(torch.cat(list(parts)))
        return MeanInterval.of(values.cpu().numpy())


def _truth(episode: Episode) -> Tensor:
    assert episode.query.class_indices is not None, "sources sample labelled queries"
    return episode.query.class_indices
