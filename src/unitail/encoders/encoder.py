r"""The interface of encoders: φ_T maps objects of one modality to vectors (n, d_T).

Encoding has two steps: `read` decodes one item, `embed` turns a batch of decoded items into
vectors. Unreadable files are thus found before their batch is computed. `encoders.encoding` runs
both steps over many items, with cache and progress.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
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
