"""An image encoder that needs no weights: the mean colour."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.images import read_image


class MeanColour(Encoder[Any]):
    """The mean of each channel, from 0 to 1: enough to tell colours apart, in no time."""

    modality = Modality.IMAGE

    def __init__(self, fingerprint: str = "mean colour") -> None:
        super().__init__(name="mean-colour", width=3, fingerprint=fingerprint, batch_size=4)

    def read(self, item: object) -> Any:  # noqa: ANN401
        return read_image(item)

    def embed(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        rows = [np.asarray(image).mean(axis=(0, 1)) / 255 for image in batch]
        return np.array(rows, dtype=np.float32)
