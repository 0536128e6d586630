"""The base class of all meta-trained networks: read a support, then answer queries from it.

Given a draw, a network is deterministic. Which tokens attend to which is one named policy,
`Visibility`, stored with every model. Features are normalised by a `FeatureScale`, measured on the
support and applied to support and queries.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from unitail.errors import CannotSolve, InvalidConfig, TooManyExamples
from unitail.framework.episode import Episode, Support, check_query_fits
from unitail.framework.learner import Paradigm


class Visibility(StrEnum):
    """Which tokens a token may look at. The sequence is the n support tokens, then the m queries.

    The paper writes g(S, x) with one query, yet puts all queries into one sequence. These are the
    possible readings of that, and they are different learners.
    """

    ISOLATED = "isolated"
    """A support token sees the support; a query sees the support and itself. g(S, x), exactly."""
    JOINT = "joint"
    """Every token sees every token: an answer depends on the other queries (transduction)."""
    CAUSAL = "causal"
    """A token sees itself and what precedes it: the paper's ablation."""

    @property
    def isolates_queries(self) -> bool:
        """Whether an answer is independent of the other queries."""
        return self is Visibility.ISOLATED

    def matrix(self, num_support: int, num_query: int) -> Tensor:
        """Return the mask that defines the policy: (n + m, n + m), true where row sees column.

        Networks never build this matrix, as it is quadratic in m; tests hold them to it.
        """
        size = num_support + num_query
        if self is Visibility.JOINT:
            return torch.ones(size, size, dtype=torch.bool)
        if self is Visibility.CAUSAL:
            return torch.ones(size, size, dtype=torch.bool).tril()
        sees_support = (torch.arange(size) < num_support).expand(size, size)
        return sees_support | torch.eye(size, dtype=torch.bool)


class Normalisation(StrEnum):
    """How features are normalised before they are projected."""

    SUPPORT = "support"
    """Centre by the support mean, divide by the root mean square of the centred support."""
    LENGTH = "length"
    """The same, then scale up narrow features to the length of features that fill a token."""
    NONE = "none"
    """Leave features unchanged."""


GRADIENT_MEMORY = 4
"""Memory for the gradients of an answer, as a multiple of that for the answer."""
MAX_SCALED = 1e6
"""Scaled features are clamped to this, so that their squares stay finite."""


@dataclass(frozen=True, eq=False)
class FeatureScale:
    """x -> (x - centre) / scale, with one number for the scale of an episode."""

    centre: Tensor
    """(B, 1, d_T)."""
    scale: Tensor
    """(B, 1, 1)."""

    @classmethod
    def of(
        cls,
        support_features: Tensor,
        normalisation: Normalisation,
        projected_dim: int | None = None,
    ) -> Self:
        """Measure a support set (B, n, d_T) whose features will be projected to `projected_dim`.

        Coordinates of root mean square one make vectors of length sqrt(d_T). A narrow vector in
        d_data coordinates would be short compared with the label; `LENGTH` makes its length
        sqrt(d_data), so that zeros appended to all features change nothing.
        """
        return cls.of_chunks([support_features], normalisation, projected_dim)

    @classmethod
    def of_chunks(
        cls,
        chunks: Sequence[Tensor],
        normalisation: Normalisation,
        projected_dim: int | None = None,
    ) -> Self:
        """Measure a support set that comes in chunks of rows, each (B, rows, d_T)."""
        if normalisation is Normalisation.NONE:
            zero = torch.zeros_like(at_least_float32(chunks[0][:, :1]))
            return cls(zero, torch.ones_like(zero[..., :1]))
        chunks = [at_least_float32(chunk) for chunk in chunks]
        count, width = sum(chunk.shape[1] for chunk in chunks), chunks[0].shape[2]
        centre = _total([chunk.sum(dim=1, keepdim=True) for chunk in chunks]) / count
        # Squares of very large or small features leave the range of the dtype: divide by
        # the peak first. Equal rows have no scale, though their mean may be off by rounding.
        peak = _peak(chunk - centre for chunk in chunks)
        rounding = 8 * torch.finfo(centre.dtype).eps * _peak(chunks)
        peak = torch.where(peak > rounding, peak, torch.inf)
        squares = [((chunk - centre) / peak).pow(2).sum((1, 2), keepdim=True) for chunk in chunks]
        rms = (_total(squares) / (count * width)).sqrt()
        if normalisation is Normalisation.LENGTH and projected_dim is not None:
            rms = rms * min(1.0, width / projected_dim) ** 0.5
        return cls(centre, torch.where(peak.isfinite(), peak * rms, torch.inf))

    def keeping_origin(self, max_distance: float) -> Self:
        """Scale without centring, but move the origin if it is farther than this from the mean."""
        offset = self.centre / self.scale  # (B, 1, d_T)
        size = offset.pow(2).mean(dim=(1, 2), keepdim=True).sqrt()
        kept = offset * (max_distance / size).clamp_max(1) * self.scale
        # Equal rows have no scale: they stay at zero.
        return replace(self, centre=self.centre - torch.where(self.scale.isfinite(), kept, 0))

    def __call__(self, features: Tensor) -> Tensor:
        """Centre and scale (B, rows, d_T), in at least single precision."""
        scaled = (at_least_float32(features) - self.centre).div_(self.scale)
        return scaled.clamp_(-MAX_SCALED, MAX_SCALED)


def _total(sums: Sequence[Tensor]) -> Tensor:
    """Return the sum of the chunks' sums; many of them are added in double precision."""
    if len(sums) == 1:
        return sums[0]
    return torch.stack(list(sums)).sum(dim=0, dtype=torch.float64).to(sums[0].dtype)


def _peak(chunks: Iterable[Tensor]) -> Tensor:
    """Return the largest absolute value of the rows in chunks: (B, 1, 1)."""
    return torch.stack([chunk.abs().amax((1, 2), keepdim=True) for chunk in chunks]).amax(dim=0)


def at_least_float32(features: Tensor) -> Tensor:
    """Convert half precision to float32, as it is too coarse for means and differences."""
    return features.to(torch.promote_types(features.dtype, torch.float32))


class ModelConfig(Protocol):
    """All that determines the function of a model besides its weights."""

    @property
    def max_ways(self) -> int | None:
        """Largest number of classes, or None without a limit."""
        ...

    @property
    def max_support(self) -> int | None:
        """Largest number of support examples, or None without a limit."""
        ...

    @property
    def num_layers(self) -> int:
        """Number of layers, each of which has weights of its own."""
        ...


class EpisodeDraw(Protocol):
    """All random choices for a batch of episodes, as a value."""

    def select(self, episodes: slice) -> Self:
        """Return the draw of some episodes of the batch, for one of several processes."""
        ...

    def to(self, device: torch.device | str) -> Self:
        """Move to a device."""
        ...


class NoDraw:
    """The draw of a model in which nothing is random."""

    def select(self, episodes: slice) -> Self:
        """Return the draw itself."""
        return self

    def to(self, device: torch.device | str) -> Self:
        """Return the draw itself."""
        return self


class ReadEpisodes(Protocol):
    """A support set after it was read, with all that is needed to answer any number of queries."""

    @property
    def support(self) -> Support:
        """The support that was read."""
        ...

    @property
    def visibility(self) -> Visibility:
        """The visibility for the queries."""
        ...


Drawn = TypeVar("Drawn", bound=EpisodeDraw)
Read = TypeVar("Read", bound=ReadEpisodes)


class ShardUnit(nn.Module):
    """A layer that is sharded as a whole, and gathered when one of its entry points is called."""

    entry_points: ClassVar[tuple[str, ...]] = ()
    """Methods other than `forward` that use weights and are called from outside."""


class EpisodeModel(nn.Module, ABC, Generic[Drawn, Read]):
    """g_theta(S, x), deterministic given a draw."""

    config: ModelConfig
    paradigm: ClassVar[Paradigm] = Paradigm.IMPLICIT
    visibilities: ClassVar[tuple[Visibility, ...]] = (Visibility.ISOLATED,)
    """The visibilities that this kind of network supports, whether trained for them or not."""
    trained_visibilities: tuple[Visibility, ...] = ()
    """The visibilities that training drew from, where the recipe names several."""
    takes_pool: ClassVar[bool] = False
    """Whether a pool of unlabelled rows can be read with the support."""
    takes_large_supports: ClassVar[bool] = False
    """Whether supports too large for pairs of rows can be read (`learners/large_hypothesis.py`)."""

    @abstractmethod
    def draw_for(
        self,
        *,
        episodes: int,
        ways: int,
        feature_dim: int,
        generator: torch.Generator,
    ) -> Drawn:
        """Draw the random choices for episodes of these sizes, on the generator's device."""

    @abstractmethod
    def _read(self, support: Support, draw: Drawn, visibility: Visibility) -> Read:
        """Read a support that has been checked."""

    def _read_pool(self, support: Support, draw: Drawn, pool: Tensor) -> Read:
        """Read a support and a pool (B, u, d_T) that have been checked."""
        raise NotImplementedError(f"{type(self).__name__} has takes_pool, but no _read_pool")

    @abstractmethod
    def _answer(self, read: Read, query_features: Tensor) -> Tensor:
        """Score the classes for queries (B, m, d_T) that have been checked: (B, m, K)."""

    @abstractmethod
    def work(self, num_support: int, num_query: int, ways: int) -> int:
        """Return how many numbers are in memory at once while queries attend to labelled rows.

        Reading a support takes the work of its rows as queries.
        """

    @property
    def visibility(self) -> Visibility:
        """The visibility that is used by default."""
        return Visibility.ISOLATED

    @property
    def trained_for(self) -> tuple[Visibility, ...]:
        """The visibilities of training, the default one first; answers in others are unreliable."""
        return tuple(dict.fromkeys((self.visibility, *self.trained_visibilities)))

    @property
    def weights_may_idle(self) -> bool:
        """Whether some weights are unused in some visibilities."""
        return False

    def shard_units(self) -> Sequence[ShardUnit]:
        """Return the layers that may be sharded over processes, each gathered when it is used."""
        return ()

    def preconditioner(self, chunks: Sequence[Tensor]) -> FeatureScale | None:
        """Return a change of scale and origin to which answers are invariant, if there is one.

        It is measured on a support in chunks of rows, each (B, rows, d_T). Applied to support and
        queries before they are converted to single precision, it prevents overflow, and loss of
        precision to a large offset.
        """
        return None

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    @property
    def only_draw(self) -> Drawn | None:
        """The only possible draw, if nothing in the model is random; else None."""
        return None

    def draw(self, support: Support, generator: torch.Generator) -> Drawn:
        """Draw the random choices for each episode of `support`, on the generator's device."""
        return self.draw_for(
            episodes=support.num_episodes,
            ways=support.ways,
            feature_dim=support.feature_dim,
            generator=generator,
        )

    def forward(
        self,
        episode: Episode,
        draw: Drawn,
        visibility: Visibility | None = None,
        pool: Tensor | None = None,
    ) -> Tensor:
        """Score the classes for all queries of a batch of episodes: (B, m, K)."""
        read = self.read(episode.support, draw, visibility, pool)
        return self.answer(read, episode.query.features)

    def read(
        self,
        support: Support,
        draw: Drawn,
        visibility: Visibility | None = None,
        pool: Tensor | None = None,
    ) -> Read:
        """Read a support set once, as far as the visibility allows without the queries.

        `pool` (B, u, d_T) are unlabelled rows, read together with the support. Each query is then
        answered from both, independently of other queries.
        """
        limit = self.config.max_support
        if limit is not None and support.num_support > limit:
            raise TooManyExamples(
                "the support has more examples than the model can read",
                got=f"{support.num_support} examples",
                allowed=f"at most {limit}",
            )
        visibility = visibility or self.visibility
        if visibility not in self.visibilities:
            raise InvalidConfig(
                "the model does not support this visibility",
                got=visibility,
                allowed=", ".join(self.visibilities),
            )
        if pool is None:
            return self._read(support, draw, visibility)
        self._check_pool(support, visibility, pool)
        return self._read_pool(support, draw, pool)

    def answer(self, read: Read, query_features: Tensor) -> Tensor:
        """Score the classes for queries (B, m, d_T): (B, m, K)."""
        check_query_fits(read.support, query_features)
        return self._answer(read, query_features)

    def contributions(self, read: Read, queries: Tensor, classes: Tensor) -> Tensor:
        """Return what each labelled row adds to the scores of classes (B, m): (B, m, n).

        Queries must be isolated. Scores are relative to the mean over all classes.
        """
        check_query_fits(read.support, queries)
        return self._contributions(read, queries, classes)

    @property
    def explains(self) -> bool:
        """Whether the model can attribute its answers to labelled rows, see `contributions`."""
        return type(self)._contributions is not EpisodeModel._contributions

    def _contributions(self, read: Read, queries: Tensor, classes: Tensor) -> Tensor:
        raise CannotSolve(
            "the model cannot attribute its answers to labelled rows",
            got=type(self).__name__,
            allowed="a relational model, such as the default",
            remedy="Choose the default model, or leave rows out one by one.",
        )

    def _check_pool(self, support: Support, visibility: Visibility, pool: Tensor) -> None:
        """Refuse a pool if the model takes none, or if the pool does not fit."""
        if not self.takes_pool:
            raise CannotSolve(
                "the model takes no pool of unlabelled rows",
                got=f"{pool.shape[-2]} rows for {type(self).__name__}",
                allowed="no pool",
                remedy="Leave it out, or choose a relational model, such as the default.",
            )
        if not visibility.isolates_queries:
            raise InvalidConfig(
                "with a pool, each query is answered independently",
                got=f"visibility {visibility}",
                allowed=Visibility.ISOLATED,
                remedy="Leave the pool out, or ask with this visibility.",
            )
        check_query_fits(support, pool, "pool")


AnyModel = EpisodeModel[Any, Any]
"""A model of any kind."""
