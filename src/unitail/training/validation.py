"""Validation: accuracy and loss on held-out episodes, the same ones every time."""

from collections.abc import Iterator
from functools import cached_property
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from unitail.baselines.proto_head import ProtoHead
from unitail.framework.episode import Episode
from unitail.framework.learner import Inference, ask
from unitail.framework.statistics import MeanInterval
from unitail.framework.task import accuracy, log_loss
from unitail.nn.episode_model import AnyModel, EpisodeDraw
from unitail.randomness import stream
from unitail.tasks.batches import EpisodeRanges, EpisodeSource
from unitail.training.processes import Processes
from unitail.training.recipe import Recipe
from unitail.training.step import draw_batch


class Validator:
    """Measures a model, with one draw per episode, and prototypes on the same episodes."""

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
        for shots in self.config.shots:  # fail before training if validation is impossible
            source.choose_batch(self._ranges(shots, self.episodes.multiple), stream(self.seed))

    @torch.no_grad()
    def measure(self, distributed: nn.Module) -> dict[str, Any]:
        """Measure all episodes: mean and interval by visibility and shots, and the overall mean."""
        table: dict[str, Any] = {}
        for visibility, shots in product(self.visibilities or (None,), self.config.shots):
            measured = self._gather(
                _accuracy_and_loss(distributed(episode, draw, visibility), episode)
                for episode, draw in self._batches(shots)
            )
            correct, loss = (MeanInterval.of(column.numpy()) for column in measured.unbind(1))
            name = f"{shots}-shot" if visibility is None else f"{shots}-shot {visibility}"
            table[name] = {
                "accuracy": correct.mean,
                "half_width": correct.half_width,
                "episodes": correct.count,
                "loss": loss.mean,
                "prototypes": self.prototypes[shots],
            }
        score = sum(row["accuracy"] for row in table.values()) / len(table)
        return {"score": score, "validation": table}

    @cached_property
    def prototypes(self) -> dict[int, float]:
        """Accuracy of prototypes on raw features, by shots, on the same episodes."""
        learner = ProtoHead()
        means = {}
        for shots in self.config.shots:
            measured = self._gather(
                _accuracy_and_loss(_answers(learner, episode), episode)
                for episode, _ in self._batches(shots)
            )
            means[shots] = float(measured[:, 0].double().mean())
        return means

    def _batches(self, shots: int) -> Iterator[tuple[Episode, EpisodeDraw]]:
        """Draw this process's shard of the episodes."""
        multiple = self.episodes.multiple
        tokens = self.config.ways * (shots + self.config.queries)
        size = max(1, self.episodes.tokens // tokens // multiple) * multiple
        for start in range(0, self.config.episodes, size):
            names = ("validation", shots, start)
            ranges = self._ranges(shots, min(size, self.config.episodes - start))
            batch = self.source.choose_batch(ranges, stream(self.seed, *names, "plan"))
            generator = stream(self.seed, *names, device=self.processes.device)
            shard = batch.shape.shard(self.processes.index, self.processes.count)
            yield draw_batch(batch, self.model, generator, shard)

    def _ranges(self, shots: int, episodes: int) -> EpisodeRanges:
        config = self.config
        return EpisodeRanges.fixed(
            episodes=episodes, ways=config.ways, shots=shots, queries=config.queries
        )

    def _gather(self, batches: Iterator[Tensor]) -> Tensor:
        """Gather the measurements of all processes on the CPU."""
        return self.processes.gather(torch.cat(list(batches))).cpu()


def _answers(learner: Inference, episode: Episode) -> Tensor:
    """Return the answers of a learner that can solve any task, on the device of the episode."""
    answers = ask(learner, episode, seed=0)
    assert isinstance(answers, Tensor)
    return answers.to(episode.query.features.device)


def _accuracy_and_loss(scores: Tensor, episode: Episode) -> Tensor:
    """Return accuracy and loss of each episode: (B, m, K) -> (B, 2)."""
    truth = episode.query.class_indices
    assert truth is not None, "sources sample labelled queries"
    log_probabilities = scores.log_softmax(dim=-1)
    return torch.stack(
        [accuracy(log_probabilities, truth), log_loss(log_probabilities, truth).mean(dim=-1)], dim=1
    )
