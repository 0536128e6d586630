"""Independent named random streams from one seed, and draws from them; no global state."""

import hashlib
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

T = TypeVar("T")

MIXERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Constants of SplitMix64 (Steele, Lea and Flood, *Fast splittable pseudorandom number
generators*, 2014)."""


def stream(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return the random stream that `seed` and `names` identify.

    The same seed and names always give the same stream, and streams of different names are
    independent, so adding a consumer of randomness never shifts the numbers of another.
    """
    key = tuple(part if isinstance(part, str) else operator.index(part) for part in (seed, *names))
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    generator = torch.Generator(device=device)
    generator.manual_seed(int.from_bytes(digest, "big") >> 1)  # torch seeds are signed 64 bit
    return generator


class RangeLaw(StrEnum):
    """The distribution of integers drawn from a range."""

    UNIFORM = "uniform"
    """All integers are equally likely."""
    LOGARITHMIC = "logarithmic"
    """All orders of magnitude are equally likely."""


def draw_between(
    bounds: tuple[int, int], generator: torch.Generator, law: RangeLaw = RangeLaw.UNIFORM
) -> int:
    """Draw an integer between the bounds, both included."""
    low, high = bounds
    if law is RangeLaw.UNIFORM:
        return int(torch.randint(low, high + 1, (), generator=generator, device=generator.device))
    return min(high, int(low * ((high + 1) / low) ** draw_uniform(generator)))


def draw_uniform(generator: torch.Generator) -> float:
    """Draw a number between 0 and 1."""
    return float(torch.rand((), generator=generator, device=generator.device))


def choose(weights: Sequence[float], generator: torch.Generator) -> int:
    """Draw an index with probabilities proportional to the weights."""
    law = torch.tensor(weights, dtype=torch.float64, device=generator.device)
    return int(torch.multinomial(law, 1, generator=generator))


def pick(values: Sequence[T], generator: torch.Generator) -> T:
    """Draw one of the values, with equal probabilities."""
    return values[draw_between((0, len(values) - 1), generator)]


@dataclass(frozen=True)
class PerEpisode:
    """Random numbers for each of B episodes, on the device of the generator."""

    episodes: int
    generator: torch.Generator

    def normal(self, rows: int, columns: int) -> Tensor:
        """Draw standard normal numbers, (B, rows, columns)."""
        shape, device = (self.episodes, rows, columns), self.generator.device
        return torch.randn(shape, generator=self.generator, device=device)

    def uniform_matrix(self, rows: int, columns: int) -> Tensor:
        """Draw uniform numbers between 0 and 1, (B, rows, columns)."""
        shape, device = (self.episodes, rows, columns), self.generator.device
        return torch.rand(shape, generator=self.generator, device=device)

    def uniform(self, ends: tuple[float, float]) -> Tensor:
        """Draw a uniform number between the ends for each episode, (B, 1, 1)."""
        shape, device = (self.episodes, 1, 1), self.generator.device
        low, high = ends
        return low + (high - low) * torch.rand(shape, generator=self.generator, device=device)

    def log_uniform(self, ends: tuple[float, float]) -> Tensor:
        """Draw a log-uniform number between the ends for each episode, (B, 1, 1)."""
        return self.uniform((math.log(ends[0]), math.log(ends[1]))).exp()


def random_injections(count: int, domain: int, codomain: int, generator: torch.Generator) -> Tensor:
    """Draw `count` uniform injections [domain] -> [codomain] as rows of images: (count, domain).

    The first `domain` entries of a uniform permutation of the codomain are a uniform injection.
    """
    keys = torch.rand(count, codomain, generator=generator, device=generator.device)
    return keys.argsort(dim=1)[:, :domain]


def content_ranks(rows: NDArray[Any], seed: int) -> NDArray[np.uint64]:
    """Return a random rank for each row (n, d), a hash of its values, equal for equal rows."""
    ranks, key = np.empty(len(rows), dtype=np.uint64), str(seed).encode()
    for place, row in enumerate(rows):
        numbers = row.astype(np.float64) + 0.0  # turns -0.0 into 0.0
        digest = hashlib.blake2b(numbers.tobytes(), digest_size=8, key=key).digest()
        ranks[place] = int.from_bytes(digest, "big")
    return ranks


def content_order(
    rows: NDArray[Any], class_indices: NDArray[np.int64], seed: int
) -> NDArray[np.int64]:
    """Return a random order of labelled rows (n, d) that does not depend on their input order.

    Each row is ranked by its content, so adding or removing a row moves no other. Copies of a row
    get different ranks. Copies in different classes are ordered by the contents of their classes,
    not by class index, so the numbering of classes has no effect either.
    """
    ranks = content_ranks(rows, seed)
    classes = np.zeros(int(class_indices.max()) + 1, dtype=np.uint64)
    np.add.at(classes, class_indices, _mixed(ranks))
    order = np.lexsort([classes[class_indices], ranks])
    ordered = ranks[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    copies = np.arange(len(rows)) - np.repeat(starts, np.diff([*starts, len(rows)]))
    with np.errstate(over="ignore"):
        distinct = _mixed(ordered + copies.astype(np.uint64) * np.uint64(MIXERS[0]))
    return np.asarray(order[np.argsort(distinct, kind="stable")], dtype=np.int64)


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash 64-bit numbers with a bijection (the finaliser of SplitMix64)."""
    for shift, factor in zip((30, 27), MIXERS[1:], strict=True):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))
