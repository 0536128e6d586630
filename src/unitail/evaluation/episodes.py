"""The episodes of a test: the same for every learner, each with a hash."""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.banks.cross import CrossTable
from unitail.banks.table import FeatureTable
from unitail.errors import UserError
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.framework.episode import Episode
from unitail.framework.task import Task
from unitail.randomness import stream
from unitail.tasks.arrays import ArrayTask
from unitail.tasks.bank_episodes import BankEpisodes, CrossEpisodes
from unitail.tasks.batches import EpisodeSource, QueryShares

Source = FeatureTable | CrossTable | EpisodeSource | Task
"""What episodes can be drawn from: a table or two, a distribution of tasks, or one task."""
MAX_EPISODES = 50
"""The most episodes of a batch."""
MAX_TOKENS = 2**14
"""The most examples and queries of a batch of several episodes."""
HASHING_THREADS = 8
RESIDENT_BYTES = 2**28
"""Features that are kept in memory; of larger banks the rows of each batch are read."""

Sampler = Callable[[int, int, torch.Generator], Episode]
"""Draws a batch of the first number of episodes and returns the second number of them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FixedBatch:
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
    sampler: Sampler

    @classmethod
    def of(cls, source: Source, protocol: EvaluationProtocol) -> "FixedEpisodes":
        """Fit the protocol to the source."""
        if isinstance(source, FeatureTable):
            name, fitted = source.full_name, protocol.fitted(source.class_sizes, source.full_name)
            rows = BankEpisodes([source], resident_bytes=RESIDENT_BYTES)
            return cls(name=name, protocol=fitted, sampler=_of_source(rows, fitted))
        if isinstance(source, CrossTable):
            fitted = _fit_cross(source, protocol)
            return cls(name=source.full_name, protocol=fitted, sampler=_of_cross(source, fitted))
        if isinstance(source, EpisodeSource):
            sampler = _of_source(source, protocol)
            return cls(name=type(source).__name__, protocol=protocol, sampler=sampler)
        if isinstance(source, Task):
            fitted = _fit_task(source, protocol)
            return cls(name=source.name, protocol=fitted, sampler=_of_task(source, fitted))
        raise UserError(
            "no episodes can be drawn from this",
            got=type(source).__name__,
            allowed="a feature bank or table, a distribution of tasks, or a task",
            remedy="Open a bank with `FeatureBank.open`, or wrap arrays in an `ArrayTask`.",
        )

    @property
    def batch_size(self) -> int:
        """The episodes of a batch, as many as memory allows."""
        return max(1, min(MAX_EPISODES, MAX_TOKENS // self.protocol.tokens))

    def batches(self) -> Iterator[FixedBatch]:
        """Draw all episodes, batch by batch."""
        for start in range(0, self.protocol.episodes, self.batch_size):
            yield self.batch(start)

    def batch(self, start: int) -> FixedBatch:
        """Draw the batch whose first episode has this number."""
        protocol = self.protocol
        names = (self.name, protocol.shots, protocol.ways, start)
        count = min(self.batch_size, protocol.episodes - start)
        generator = stream(protocol.seed, "evaluation", *names)
        episode = self.sampler(self.batch_size, count, generator)
        draws = stream(protocol.seed, "evaluation draws", *names)
        return FixedBatch(
            episode=episode,
            hashes=episode_hashes(episode),
            draw_seed=draws.initial_seed() % 2**31,
        )


def episode_hashes(episode: Episode) -> NDArray[np.uint64]:
    """Hash features, as float32, and classes of support and query of each episode: (B,)."""
    support, query = episode.support, episode.query
    assert query.class_indices is not None, "test episodes have labelled queries"
    arrays = [
        tensor.cpu().numpy()
        for tensor in (
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


def _of_source(source: EpisodeSource, protocol: EvaluationProtocol) -> Sampler:
    def sample(size: int, count: int, generator: torch.Generator) -> Episode:
        batch = source.choose_batch(protocol.ranges(size), generator)
        return batch.sample(generator, slice(0, count))

    return sample


def _of_task(task: Task, protocol: EvaluationProtocol) -> Sampler:
    def sample(size: int, count: int, generator: torch.Generator) -> Episode:
        episode = task.sample(
            episodes=size, shots=protocol.shots, queries=protocol.queries, generator=generator
        )
        return _first(episode, count)

    return sample


def _of_cross(table: CrossTable, protocol: EvaluationProtocol) -> Sampler:
    episodes = CrossEpisodes(table)

    def sample(size: int, count: int, generator: torch.Generator) -> Episode:
        shape = {"ways": protocol.ways, "shots": protocol.shots, "queries": protocol.queries}
        return _first(episodes.sample(episodes=size, generator=generator, **shape), count)

    return sample


def _fit_cross(table: CrossTable, protocol: EvaluationProtocol) -> EvaluationProtocol:
    _check_balanced(protocol, table.full_name)
    sizes = table.support.class_sizes
    return protocol.fitted(sizes, table.full_name, table.query.class_sizes)


def _check_balanced(protocol: EvaluationProtocol, name: str) -> None:
    if protocol.query_shares is not QueryShares.BALANCED:
        raise UserError(
            f"the task {name!r} has balanced queries only",
            got=protocol.shares,
            allowed=QueryShares.BALANCED.value,
            remedy="Draw from a feature bank or a distribution of tasks instead.",
        )


def _fit_task(task: Task, protocol: EvaluationProtocol) -> EvaluationProtocol:
    """Return what a task allows of a protocol: it has its own classes, all in each episode."""
    _check_balanced(protocol, task.name)
    own = replace(protocol, ways=task.ways)
    return own.fitted(task.class_sizes.numpy(), task.name) if isinstance(task, ArrayTask) else own


def _first(episode: Episode, count: int) -> Episode:
    """Return the first `count` episodes of a batch."""
    support, query = episode.support, episode.query
    indices = query.class_indices
    return Episode(
        support=replace(
            support,
            features=support.features[:count],
            class_indices=support.class_indices[:count],
        ),
        query=replace(
            query,
            features=query.features[:count],
            class_indices=None if indices is None else indices[:count],
        ),
    )
