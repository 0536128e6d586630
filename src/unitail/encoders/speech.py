r"""Audio models of transformers, such as wav2vec2, HuBERT, WavLM and Whisper's encoder.

A clip's vector is the mean of the model's last hidden states over the frames with sound in them:

    φ_T(clip) = (1 / T) Σ_t h_t

Clips are never padded to a common length: models such as wav2vec2-base were trained without an
attention mask and treat padding as silence, so the vector would depend on the batch. Each clip is
run on its own. Long clips are split into equal pieces, and the mean is taken over all frames.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.hub import combine, load_pretrained
from unitail.encoders.sounds import read_sound
from unitail.errors import UnknownEncoder

MAX_PIECE_SECONDS = 30.0
"""Longest input of a model; the cost of attention is quadratic in it."""
FRAME_SECONDS = 0.01
"""Hop between spectrogram frames, the unit in which some extractors state their maximum length."""
MIN_SECONDS = 0.1
"""Enough input for every spectrogram; models on raw samples state their minimum exactly."""
POOLING = f"mean over frames, pieces of {MAX_PIECE_SECONDS} s, 1"
"""Changed whenever the vectors change."""


class SpeechEncoder(Encoder[NDArray[np.float32]]):
    """A transformers audio model, by hub id or folder.

    Encoder-decoder models are used without their decoder (Whisper). Models that pool a spectrogram
    of fixed length contribute their pooled output (AST).
    """

    modality = Modality.AUDIO

    def __init__(self, name: str, device: torch.device) -> None:
        loaded = load_pretrained(
            name, model_class="AutoModel", processor_class="AutoFeatureExtractor", device=device
        )
        self._extractor = loaded.processor
        self._rate = _sampling_rate(name, loaded.processor)
        config: Any = loaded.model.config
        self._model = _encoder_part(loaded.model)
        self._device = device
        self._min_samples = _receptive_field(config) or math.ceil(MIN_SECONDS * self._rate)
        self._max_samples = int(_max_piece_seconds(loaded.processor) * self._rate)
        fingerprint = combine(loaded.fingerprint, POOLING)
        super().__init__(name=name, width=self._probe(name), fingerprint=fingerprint, batch_size=8)

    def read(self, item: object) -> NDArray[np.float32]:
        """Decode one sound at the model's own rate, see `read_sound`."""
        return read_sound(item, self._rate)

    def embed(self, batch: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Return one vector for each clip (n, d_T); clips are run one by one."""
        vectors = [self._vector(clip) for clip in batch]
        return np.stack(vectors) if vectors else np.zeros((0, self.width), dtype=np.float32)

    def _vector(self, clip: NDArray[np.float32]) -> NDArray[np.float32]:
        pieces = np.array_split(clip, math.ceil(len(clip) / self._max_samples))
        frames = torch.cat([self._frames(piece) for piece in pieces])
        vector: NDArray[np.float32] = frames.mean(dim=0).float().cpu().numpy()
        return vector

    @torch.inference_mode()
    def _frames(self, piece: NDArray[np.float32]) -> Tensor:
        """Return the hidden states of a piece (T, d_T), or the model's pooled output (1, d_T)."""
        padded = np.pad(piece, (0, max(0, self._min_samples - len(piece))))
        inputs = self._extractor(
            padded, sampling_rate=self._rate, return_attention_mask=True, return_tensors="pt"
        ).to(self._device)
        mask = inputs.pop("attention_mask", None)
        if mask is not None and not mask.all():
            inputs["attention_mask"] = mask
        output = self._model(**inputs)
        if mask is None and "pooler_output" in output:
            return output["pooler_output"]  # type: ignore[no-any-return]
        hidden: Tensor = output["last_hidden_state"][0]
        return hidden[: _real_frames(mask, len(hidden))]

    def _probe(self, name: str) -> int:
        """Return the width of the vectors; an unsuitable model raises an error here, not later."""
        try:
            return self._frames(np.zeros(self._min_samples, dtype=np.float32)).shape[1]
        except Exception as error:  # models raise errors of any type
            raise _no_audio_model(name, f"{type(error).__name__}: {error}") from error


def _encoder_part(model: nn.Module) -> nn.Module:
    config: Any = model.config
    if getattr(config, "is_encoder_decoder", False):
        return model.get_encoder()  # type: ignore[operator, no-any-return]
    return model


def _sampling_rate(name: str, extractor: Any) -> int:  # noqa: ANN401 - each model has its own class
    rate = getattr(extractor, "sampling_rate", None)
    if not isinstance(rate, int):
        raise _no_audio_model(name, "preprocessing without a sampling rate")
    return rate


def _receptive_field(config: Any) -> int | None:  # noqa: ANN401 - each model has its own class
    """Return the number of samples that one frame of a convolution stack needs; None for others."""
    kernels, strides = getattr(config, "conv_kernel", None), getattr(config, "conv_stride", None)
    if not isinstance(kernels, list | tuple) or not isinstance(strides, list | tuple):
        return None
    needed = 1
    for kernel, stride in zip(reversed(kernels), reversed(strides), strict=True):
        needed = (needed - 1) * stride + kernel
    return needed


def _max_piece_seconds(extractor: Any) -> float:  # noqa: ANN401 - each model has its own class
    """Return the longest input in seconds; extractors silently truncate anything longer."""
    seconds = getattr(extractor, "chunk_length", None)  # Whisper
    frames = getattr(extractor, "max_length", None)  # AST
    if frames is not None:
        seconds = frames * FRAME_SECONDS
    return min(MAX_PIECE_SECONDS, float(seconds or MAX_PIECE_SECONDS))


def _real_frames(mask: Tensor | None, count: int) -> int:
    """Return the number of frames that are not padding; the mask may be finer than the frames."""
    if mask is None:
        return count
    return max(1, math.ceil(int(mask.sum()) * count / mask.numel()))


def _no_audio_model(name: str, got: str) -> UnknownEncoder:
    return UnknownEncoder(
        f"model {name!r} is not a supported audio model",
        got=got.splitlines()[0],
        allowed="models with a feature extractor for sound that return hidden states, "
        "such as wav2vec2, HuBERT, WavLM or Whisper",
    )
