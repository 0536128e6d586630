"""Test episodes: the same for every learner, each with a hash."""

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
"""Anything that episodes can be drawn from: one or two tables, a distribution of tasks, a task."""
MAX_EPISODES = 50
"""Largest number of episodes in a batch."""
MAX_TOKENS = 2**14
"""Largest number of examples and queries in a batch of several episodes."""
HASHING_THREADS = 8
RESIDENT_BYTES = 2**28
"""Banks up to this many bytes stay in memory; larger ones are read from files per batch."""

Sampler = Callable[[int, int, torch.Generator], Episode]
"""`sample(size, count, generator)` draws `size` episodes and returns the first `count`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FixedBatch:
    """A batch of test episodes, on the CPU."""

    episode: Episode
    hashes: NDArray[np.uint64]
    """A hash that identifies each episode, (B,)."""
    draw_seed: int
    """Seed of a randomised learner's draws for these episodes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FixedEpisodes:
    """The episodes determined by a protocol and the name of a source.

    Each batch has its own random stream, on the CPU whatever device the learner uses. Batches are
    always drawn in full, so the first episodes do not depend on the number of episodes. Another
    version of torch or kind of processor may draw different ones; the hashes reveal it.
    """

    name: str
    """Name of the source of the episodes."""
    protocol: EvaluationProtocol
    """The protocol as fitted to the source: the actual shape of the episodes."""
    sampler: Sampler

    @classmethod
    def of(cls, source: Source, protocol: EvaluationProtocol) -> "FixedEpisodes":
        """Fit the protocol to the source and return its episodes."""
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
        """Number of episodes in a batch, within the limits on memory."""
        return max(1, min(MAX_EPISODES, MAX_TOKENS // self.protocol.tokens))

    def batches(self) -> Iterator[FixedBatch]:
        """Draw all episodes, batch by batch."""
        for start in range(0, self.protocol.episodes, self.batch_size):
            yield self.batch(start)

    def batch(self, start: int) -> FixedBatch:
        """Draw the batch that begins with episode number `start`."""
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

    with ThreadPoolExecutor(HASHING_THREADS) as pool:  # hashing releases the GIL
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
    """Fit a protocol to a task, whose episodes always contain all its classes."""
    _check_balanced(protocol, task.name)
    protocol = replace(protocol, ways=task.ways)
    if not isinstance(task, ArrayTask):
        return protocol
    return protocol.fitted(task.class_sizes.numpy(), task.name)


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
