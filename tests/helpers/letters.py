"""An encoder of texts that is quick and can be foretold."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.encoder import Encoder, Modality
from unitail.errors import Unreadable


class Letters(Encoder[str]):
    """Counts of a and b; "?" cannot be read."""

    modality = Modality.TEXT

    def __init__(self, fingerprint: str = "letters") -> None:
        super().__init__(name="Letters", width=2, fingerprint=fingerprint, batch_size=2)

    def read(self, item: object) -> str:
        text = item.read_text() if isinstance(item, Path) else str(item)
        if "?" in text:
            raise Unreadable("a question", got=text, allowed="statements")
        return text

    def embed(self, batch: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[text.count(letter) for letter in "ab"] for text in batch], np.float32)
