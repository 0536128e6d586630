"""Small models, random episodes and a count of operations for tests.

Models and episodes are in float64, where exactness is claimed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from unitail.framework.episode import Episode, Query, Support
from unitail.nn.episode_model import Visibility
from unitail.randomness import stream
from unitail.tail.config import TailConfig
from unitail.tail.model import Tail

CONFIG = TailConfig(
    projected_dim=12,
    label_dim=4,
    hidden_dim=16,
    layers=2,
    heads=2,
    mlp_dim=24,
    dictionary_size=7,
    visibility=Visibility.ISOLATED,
)


def small_model(**changes: object) -> Tail:
    """Return an untrained model small enough for exhaustive checks, in float64."""
    return Tail(TailConfig(**{**vars(CONFIG), **changes}), seed=1).double()


def random_support(
    shots: Sequence[int],
    *,
    episodes: int = 2,
    feature_dim: int = 5,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Support:
    """Return random features with `shots[k]` examples of class k, in a shuffled order."""
    generator = stream(seed, "support")
    indices = torch.arange(len(shots)).repeat_interleave(torch.tensor(shots))
    order = torch.randperm(len(indices), generator=generator)
    features = torch.randn(episodes, len(indices), feature_dim, generator=generator, dtype=dtype)
    return Support(
        features=features, class_indices=indices[order].repeat(episodes, 1), ways=len(shots)
    )


def random_episode(
    shots: Sequence[int] = (2, 1, 3),
    *,
    queries: int = 4,
    episodes: int = 2,
    feature_dim: int = 5,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Episode:
    """Return a random support and labelled queries."""
    generator = stream(seed, "query")
    support = random_support(
        shots, episodes=episodes, feature_dim=feature_dim, seed=seed, dtype=dtype
    )
    features = torch.randn(episodes, queries, feature_dim, generator=generator, dtype=dtype)
    indices = torch.randint(len(shots), (episodes, queries), generator=generator)
    return Episode(support=support, query=Query(features=features, class_indices=indices))


def flops(work: Callable[[], object]) -> int:
    """Count floating-point operations, with attention as the products it is made of."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        work()
    return counter.get_total_flops()


@dataclass(frozen=True)
class Sizes:
    """The sizes of an episode."""

    shots: tuple[int, ...]
    queries: int
    episodes: int
    feature_dim: int
    seed: int

    def episode(self) -> Episode:
        """Return a random episode of these sizes."""
        return random_episode(
            self.shots,
            queries=self.queries,
            episodes=self.episodes,
            feature_dim=self.feature_dim,
            seed=self.seed,
        )


def sizes(*, queries: int = 5) -> st.SearchStrategy[Sizes]:
    """Draw K from 2 to M, unequal shots, and widths from 1 to above d_data."""
    return st.builds(
        Sizes,
        shots=st.lists(st.integers(1, 3), min_size=2, max_size=CONFIG.dictionary_size).map(tuple),
        queries=st.integers(1, queries),
        episodes=st.integers(1, 3),
        feature_dim=st.integers(1, CONFIG.projected_dim + 6),
        seed=st.integers(0, 1000),
    )
