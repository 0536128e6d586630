r"""What every encoder is: φ_T, from objects of one modality to vectors (n, d_T).

Encoding has two steps, so that a file that cannot be read is found before its batch is computed:
`read` decodes one item, `embed` turns decoded items into vectors. `encoders.encoding` runs both
over many items, with cache and progress.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Decoded = TypeVar("Decoded")


class Modality(StrEnum):
    """What items are."""

    IMAGE = "image"
    TEXT = "text"
    AUDIO = "audio"
    TABLE = "table"


class Encoder(ABC, Generic[Decoded]):
    """A frozen map from items to vectors; an item's vector depends on that item alone."""

    modality: ClassVar[Modality]
    max_words: int | None = None
    """Of a text, words beyond this number are surely not read; None if all are."""

    def __init__(self, *, name: str, width: int, fingerprint: str, batch_size: int) -> None:
        self.name = name
        """What users call it; `make_encoder(name)` makes it again."""
        self.width = width
        """d_T."""
        self.fingerprint = fingerprint
        """A hash of all that decides the vectors: weights, preprocessing, pooling."""
        self.batch_size = batch_size
        """How many items are embedded at once by default."""

    def __sklearn_clone__(self) -> Self:
        """Let clones of a classifier share the encoder: it is frozen, and may be large."""
        return self

    @abstractmethod
    def read(self, item: object) -> Decoded:
        """Decode one item; raise `Unreadable` if it cannot be. Called from several threads."""

    @abstractmethod
    def embed(self, batch: Sequence[Decoded]) -> NDArray[np.float32]:
        """Return one vector for each decoded item, (n, d_T)."""
