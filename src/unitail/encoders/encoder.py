r"""The interface of encoders: φ_T maps objects of one modality to vectors (n, d_T).

Encoding has two steps: `read` decodes one item, `embed` turns a batch of decoded items into
vectors. Unreadable files are thus found before their batch is computed. `encoders.encoding` runs
both steps over many items, with cache and progress, and returns `Vectors`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Decoded = TypeVar("Decoded")


class Modality(StrEnum):
    """The kind of an item."""

    IMAGE = "image"
    TEXT = "text"
    AUDIO = "audio"
    TABLE = "table"


class Encoder(ABC, Generic[Decoded]):
    """A frozen function from items to vectors; an item's vector depends on that item alone."""

    modality: ClassVar[Modality]
    max_words: int | None = None
    """Upper bound on the number of words read from a text; None if there is none."""

    def __init__(self, *, name: str, width: int, fingerprint: str, batch_size: int) -> None:
        self.name = name
        """Name of the encoder; `make_encoder(name)` creates it again."""
        self.width = width
        """Width of the vectors, d_T."""
        self.fingerprint = fingerprint
        """Hash of everything that determines the vectors: weights, preprocessing, pooling."""
        self.batch_size = batch_size
        """Default number of items per batch."""

    def __sklearn_clone__(self) -> Self:
        """Let clones of a classifier share the encoder: it is frozen, and may be large."""
        return self

    @abstractmethod
    def read(self, item: object) -> Decoded:
        """Decode one item, or raise `Unreadable`. Called from several threads."""

    @abstractmethod
    def embed(self, batch: Sequence[Decoded]) -> NDArray[np.float32]:
        """Return one vector for each decoded item, (n, d_T)."""


@dataclass(frozen=True)
class Failure:
    """An item that could not be encoded."""

    place: int
    """Index of the item."""
    reason: str
    """What is wrong with the item, without its name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Vectors:
    """The vectors of the items that could be read."""

    features: NDArray[np.float32]
    """Shape (n_read, d_T), in the order of the items."""
    kept: NDArray[np.int64]
    """Indices of the items with a vector, (n_read,)."""
    cached: NDArray[np.bool_]
    """Mask of the vectors that came from the cache, (n_read,)."""
    unreadable: tuple[Failure, ...] = ()
    """All other items, in their order."""
    hashes: tuple[str, ...] = ()
    """Content hash of each item with a vector; none for rows of tables."""

    @classmethod
    def of_all(cls, features: NDArray[np.float32]) -> Self:
        """Return vectors of items that were all readable."""
        count = len(features)
        return cls(features=features, kept=np.arange(count), cached=np.zeros(count, bool))

    @property
    def num_cached(self) -> int:
        """Number of vectors that came from the cache."""
        return int(self.cached.sum())

    def split(self, sizes: Sequence[int]) -> "list[Vectors]":
        """Split into the vectors of consecutive groups of items with these sizes."""
        pieces, start = [], 0
        for size in sizes:
            end = start + size
            low, high = np.searchsorted(self.kept, (start, end))
            failures = [failure for failure in self.unreadable if start <= failure.place < end]
            pieces.append(
                Vectors(
                    features=self.features[low:high],
                    kept=self.kept[low:high] - start,
                    cached=self.cached[low:high],
                    hashes=self.hashes[low:high],
                    unreadable=tuple(
                        Failure(failure.place - start, failure.reason) for failure in failures
                    ),
                )
            )
            start = end
        return pieces
