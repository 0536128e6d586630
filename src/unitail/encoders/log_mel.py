r"""Log-mel statistics: the audio encoder that needs no weights.

A clip's spectrogram L (frames, bands) holds the logarithm of the power in each of 40 bands of the
mel scale, every 10 ms. Its vector is made of six parts of 40 numbers each, over the frames with
sound:

    mean              which bands are loud: timbre, vowels, the kind of source
    deviation         how much each band changes
    movement          how much it changes within 50 ms: onsets and rhythm against steady noise
    three thirds      the mean of each third of the clip minus the overall mean: order in time

The vector does not depend on loudness: the clip's level is subtracted, and both the floor of L and
the threshold for silence lie at a fixed distance below its loudest moment. Silent frames, such as
those around a sound, are left out. A completely silent clip has the zero vector.

These are the features of speech recognition before neural networks, averaged over time. They
separate kinds of sounds, but know no words, speakers or melodies as trained encoders do.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.sounds import read_sound

NAME = "log-mel"
RATE = 16_000
"""Samples per second: covers up to 8 kHz, where speech and most everyday sounds differ."""
WINDOW, HOP, SPECTRUM = 400, 160, 512
"""Samples in a frame (25 ms), between frames (10 ms), and in the padded Fourier transform."""
BANDS, MIN_HZ, MAX_HZ = 40, 50.0, 8_000.0
"""Number of bands, and the frequencies in Hz that they cover."""
FLOOR = 6.0
"""Floor of L below the loudest band of the loudest frame, in powers of ten: 60 dB."""
SILENCE = 4.0
"""Frames this far below the loudest frame are silent, in powers of ten: 40 dB."""
LAG = 5
"""Distance in frames over which movement is measured: far enough that windows do not overlap."""
PARTS = 6
VERSION = 1
"""Changed whenever the vectors change."""


class LogMelEncoder(Encoder[NDArray[np.float32]]):
    """Mean, deviation, movement and thirds of a log-mel spectrogram: 240 numbers.

    For spoken words use a trained speech encoder: results/raw_files.md has the accuracy of this
    one on spoken digits, docs/experiments.md that of others.
    """

    modality = Modality.AUDIO

    def __init__(self, device: torch.device) -> None:
        settings = (VERSION, RATE, WINDOW, HOP, SPECTRUM, BANDS, MIN_HZ, MAX_HZ, FLOOR, SILENCE)
        fingerprint = hashlib.sha256(repr((NAME, *settings, LAG)).encode()).hexdigest()
        super().__init__(name=NAME, width=PARTS * BANDS, fingerprint=fingerprint, batch_size=32)
        self._filters = mel_filters().to(device)
        self._window = torch.hann_window(WINDOW, device=device)

    def read(self, item: object) -> NDArray[np.float32]:
        """Decode one sound, see `read_sound`."""
        return read_sound(item, RATE)

    def embed(self, batch: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Return one vector for each clip (n, 240); clips are processed one by one."""
        vectors = [statistics(self._log_mel(torch.tensor(clip))) for clip in batch]
        return torch.stack(vectors).cpu().numpy() if vectors else np.zeros((0, self.width), "f4")

    def _log_mel(self, clip: Tensor) -> Tensor:
        """Return L (frames, bands), log10 relative to the loudest value; zeros for silence."""
        clip = clip.to(self._window)
        # Squares of very quiet samples would underflow in single precision.
        clip = clip / clip.abs().max().clamp(min=torch.finfo(clip.dtype).tiny)
        spectrum = torch.stft(
            clip, SPECTRUM, HOP, WINDOW, self._window, pad_mode="constant", return_complex=True
        )
        power = spectrum.abs().square().T @ self._filters  # (frames, bands)
        loudest = power.max()
        if loudest == 0:
            return torch.zeros_like(power)
        return (power / loudest).clamp(min=10**-FLOOR).log10()


def statistics(log_mel: Tensor) -> Tensor:
    """Return the vector of a spectrogram (frames, bands), the concatenation of its six parts."""
    levels = (10**log_mel).sum(dim=1).log10()
    audible = levels >= levels.max() - SILENCE
    frames = log_mel[audible]
    mean = frames.mean(dim=0)
    changes = (log_mel[LAG:] - log_mel[:-LAG])[audible[LAG:] & audible[:-LAG]]
    movement = changes.square().sum(dim=0) / max(1, len(changes))
    parts = [mean - mean.mean(), frames.std(dim=0, correction=0), movement.sqrt()]
    return torch.cat(parts + [third.mean(dim=0) - mean for third in thirds(frames)])


def thirds(frames: Tensor) -> list[Tensor]:
    """Return three parts of equal length; they overlap if needed, so none is empty."""
    count = len(frames)
    return [frames[part * count // 3 : -(-(part + 1) * count // 3)] for part in range(3)]


def mel_filters() -> Tensor:
    """Return triangular filters with equal bases on the mel scale, (SPECTRUM / 2 + 1, bands).

    mel(f) = log(1 + f / 700 Hz) up to a factor. Each triangle has peak 1, and begins and ends at
    the peaks of its neighbours.
    """
    low, high = np.log1p(MIN_HZ / 700), np.log1p(MAX_HZ / 700)
    corners = 700 * np.expm1(np.linspace(low, high, BANDS + 2))
    frequencies = np.arange(SPECTRUM // 2 + 1)[:, None] * RATE / SPECTRUM
    rising = (frequencies - corners[:-2]) / (corners[1:-1] - corners[:-2])
    falling = (corners[2:] - frequencies) / (corners[2:] - corners[1:-1])
    return torch.from_numpy(np.minimum(rising, falling).clip(min=0)).float()
