"""The episodes of a test: the same for every learner, each with a hash."""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.banks.splits import FeatureTable, full_name
from unitail.errors import UserError
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.framework.episode import Episode, Query, Support
from unitail.framework.task import Task
from unitail.randomness import stream
from unitail.tasks.arrays import ArrayTask
from unitail.tasks.sampling import BankEpisodes
from unitail.tasks.shapes import EpisodeSource, QueryShares

Source = FeatureTable | EpisodeSource | Task
"""What episodes can be drawn from: a table or bank, a distribution of tasks, or one task."""
EPISODES_AT_ONCE = 50
"""The most episodes of a batch."""
TOKENS_AT_ONCE = 2**14
"""The most examples and queries of a batch of several episodes."""
HASHING_THREADS = 8

Draw = Callable[[int, int, torch.Generator], Episode]
"""Draws a batch of so many episodes and returns the first so many of them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Some episodes of a test, on the CPU."""

    episode: Episode
    hashes: NDArray[np.uint64]
    """What tells each episode from all others, (B,)."""
    draw_seed: int
    """The seed of a randomised learner's draws for these episodes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FixedEpisodes:
    """The episodes that a protocol and the name of a source decide.

    Each batch has a random stream of its own, on the CPU whatever device learns. Batches are drawn
    whole, so the first episodes are the same however many are asked for. Another version of torch,
    or another kind of processor, may draw others; the hashes tell.
    """

    name: str
    """What the episodes are drawn from."""
    protocol: EvaluationProtocol
    """Their true shape."""
    draw: Draw

    @classmethod
    def of(cls, source: Source, protocol: EvaluationProtocol) -> "FixedEpisodes":
        """Fit the protocol to the source."""
        if _is_source(source):
            return cls(
                name=type(source).__name__, protocol=protocol, draw=_from_source(source, protocol)
            )
        if _is_table(source):
            name = full_name(source)
            fitted = protocol.fitted(class_sizes(source), name)
            return cls(
                name=name, protocol=fitted, draw=_from_source(BankEpisodes([source]), fitted)
            )
        if not _is_task(source):
            raise UserError(
                "no episodes can be drawn from this",
                got=type(source).__name__,
                allowed="a feature bank or table, a distribution of tasks, or a task",
                remedy="Open a bank with `FeatureBank.open`, or wrap arrays in an `ArrayTask`.",
            )
        fitted = _fit_task(source, protocol)
        return cls(name=source.name, protocol=fitted, draw=_from_task(source, fitted))

    @property
    def batch_size(self) -> int:
        """The episodes of a batch, as many as memory allows."""
        return max(1, min(EPISODES_AT_ONCE, TOKENS_AT_ONCE // self.protocol.tokens))

    def batches(self) -> Iterator[Batch]:
        """Draw all episodes, batch by batch."""
        for start in range(0, self.protocol.episodes, self.batch_size):
            yield self.batch(start)

    def batch(self, start: int) -> Batch:
        """Draw the batch whose first episode has this number."""
        protocol = self.protocol
        names = (self.name, protocol.shots, protocol.ways, start)
        count = min(self.batch_size, protocol.episodes - start)
        generator = stream(protocol.seed, "evaluation", *names)
        episode = self.draw(self.batch_size, count, generator)
        draws = stream(protocol.seed, "evaluation draws", *names)
        return Batch(
            episode=episode,
            hashes=episode_hashes(episode),
            draw_seed=draws.initial_seed() % 2**31,
        )


def class_sizes(table: FeatureTable) -> NDArray[np.int64]:
    """Count the rows of each class of a table, (C,)."""
    members = table.class_indices[table.class_indices >= 0]
    return np.bincount(members, minlength=len(table.class_names))


def episode_hashes(episode: Episode) -> NDArray[np.uint64]:
    """Hash features, as float32, and classes of support and query of each episode: (B,)."""
    support, query = episode.support, episode.query
    assert query.class_indices is not None, "test episodes have labelled queries"
    arrays = [
        part.cpu().numpy()
        for part in (
            support.features.float(),
            support.class_indices,
            query.features.float(),
            query.class_indices,
        )
    ]

    def digest(number: int) -> int:
        hasher = hashlib.blake2b(digest_size=8)
        for array in arrays:
            hasher.update(np.ascontiguousarray(array[number]).data)
        return int.from_bytes(hasher.digest(), "big")

    with ThreadPoolExecutor(HASHING_THREADS) as pool:  # hashing lets other threads run
        return np.array(list(pool.map(digest, range(support.num_episodes))), dtype=np.uint64)


def _from_source(source: EpisodeSource, protocol: EvaluationProtocol) -> Draw:
    def draw(size: int, count: int, generator: torch.Generator) -> Episode:
        plan = source.plan(protocol.ranges(size), generator)
        return source.sample(plan, generator, slice(0, count))

    return draw


def _from_task(task: Task, protocol: EvaluationProtocol) -> Draw:
    def draw(size: int, count: int, generator: torch.Generator) -> Episode:
        episode = task.sample(
            episodes=size, shots=protocol.shots, queries=protocol.queries, generator=generator
        )
        return _first(episode, count)

    return draw


def _fit_task(task: Task, protocol: EvaluationProtocol) -> EvaluationProtocol:
    """Return what a task allows of a protocol: it has its own classes, all in each episode."""
    if protocol.query_shares is not QueryShares.BALANCED:
        raise UserError(
            f"the task {task.name!r} has balanced queries only",
            got=protocol.shares,
            allowed=QueryShares.BALANCED.value,
            remedy="Draw from a feature bank or a distribution of tasks instead.",
        )
    own = replace(protocol, ways=task.ways)
    return own.fitted(task.class_sizes.numpy(), task.name) if isinstance(task, ArrayTask) else own


def _first(episode: Episode, count: int) -> Episode:
    """Return the first so many episodes of a batch."""
    support, query = episode.support, episode.query
    indices = query.class_indices
    return Episode(
        support=Support(
            features=support.features[:count],
            class_indices=support.class_indices[:count],
            ways=support.ways,
        ),
        query=Query(
            features=query.features[:count],
            class_indices=None if indices is None else indices[:count],
        ),
    )


def _is_source(source: Source) -> TypeGuard[EpisodeSource]:
    return hasattr(source, "plan")


def _is_table(source: Source) -> TypeGuard[FeatureTable]:
    return hasattr(source, "class_names")


def _is_task(source: Source) -> TypeGuard[Task]:
    return hasattr(source, "bayes_risk")
