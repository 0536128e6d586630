r"""Decode sounds from files, bytes and arrays: mono, at an encoder's sampling rate.

libsndfile decodes files (wav, flac, ogg, mp3 and more) and soxr resamples. The size in a file's
header is checked before any of it is decoded.

wav, flac and mp3 files state their length, so truncated ones are refused. Ogg is made for streaming
and has no stated length: a part of an ogg file is a shorter sound.
"""

import io
import os
import re
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unitail.encoders.item_file import opened
from unitail.errors import Unreadable, optional
from unitail.wording import shown

MAX_SECONDS = 600
"""Longer sounds are refused: one vector cannot summarise them."""
MAX_BYTES = 2**30
"""Larger files are refused without reading them."""
MAX_SAMPLES = 2**26
"""Largest number of samples over all channels: `MAX_SECONDS` of two channels at 48 kHz fit."""
MIN_RATE, MAX_RATE = 1_000, 768_000
"""Samples per second."""
MAX_AMPLITUDE = 1e9
"""Full scale is 1; above this, squares of samples may overflow in single precision."""
MAX_CHANNELS = 64
"""Largest number of channels of an array; with more, its axes are swapped."""
MIN_DECODED_SHARE = 0.99
"""Share of the stated length that must be present; headers of mp3 files are not exact."""
UNSTATED_BYTES = 2**31 - 2**16
"""From this size on, the length in a wav header only means that its writer did not know it."""
AUDIO = "a sound as wav, flac, ogg or mp3"


def read_sound(item: object, rate: int) -> NDArray[np.float32]:
    """Return the mean over channels at `rate` samples per second, (n,) with n >= 1.

    `item` is a path, the bytes of a file, or a pair: samples (n,) or (n, channels), and their rate.
    Integers are scaled by the range of their dtype, as in files; floats are not scaled.
    """
    if isinstance(item, str | Path):
        return _read_file(shown(item), item, rate)
    if isinstance(item, bytes):
        _check_size("a sound in memory", len(item))
        return _read_file("a sound in memory", io.BytesIO(item), rate)
    if isinstance(item, tuple | list) and len(item) == 2:
        samples, own_rate = item
        return _from_array(samples, own_rate, rate)
    raise Unreadable(
        "not a sound",
        got=type(item).__name__,
        allowed="a path, the bytes of a file, or a pair of samples and their rate",
    )


def is_sound(item: object) -> TypeGuard[tuple[NDArray[Any], float]]:
    """Return whether an item is a pair of an array of samples and a rate."""
    return (
        isinstance(item, tuple | list)
        and len(item) == 2
        and isinstance(item[0], np.ndarray)
        and item[0].dtype.kind in "iuf"
        and isinstance(item[1], int | float | np.number)
    )


def _read_file(
    name: str, source: str | bytes | Path | io.BytesIO, rate: int
) -> NDArray[np.float32]:
    soundfile = optional("soundfile", extra="encoders")
    if not isinstance(source, io.BytesIO):
        with opened(Path(os.fsdecode(source)), MAX_BYTES, kind="a sound") as file:
            size = os.fstat(file.fileno()).st_size
        _check_size(name, size)
        if os.name == "posix":  # file names are bytes there, not necessarily valid text
            source = os.fsencode(source)
    try:
        sound = soundfile.SoundFile(source)
    except (soundfile.LibsndfileError, TypeError) as error:  # TypeError: .raw has no header
        raise Unreadable(
            f"{name} holds no sound that can be decoded",
            got="another format, or a damaged or truncated header",
            allowed=AUDIO,
        ) from error
    with sound:
        _check_length(name, sound.frames, sound.samplerate, sound.channels)
        try:
            # Read everything at once: soundfile seeks after each read, which distorts mp3.
            samples = sound.read(dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise Unreadable(
                f"{name} is damaged or truncated", got=error.error_string, allowed="a complete file"
            ) from error
        _check_whole(name, sound, len(samples))
        return _resampled(name, samples, sound.samplerate, rate)


def _check_whole(name: str, file: Any, read: int) -> None:  # noqa: ANN401 - it has no types
    share = min(_share_of_wav(file.extra_info), read / file.frames if file.frames else 1.0)
    if share < MIN_DECODED_SHARE:
        raise Unreadable(
            f"{name} is truncated",
            got=f"{share:.0%} of the length in its header",
            allowed="a complete file",
        )


def _share_of_wav(log: str) -> float:
    """Return the share of a wav file that is present, from libsndfile's log of its correction."""
    sizes = re.search(r"^data : (\d+) \(should be (\d+)\)", log, re.MULTILINE)
    if not sizes or int(sizes[1]) >= UNSTATED_BYTES:
        return 1.0
    return int(sizes[2]) / max(1, int(sizes[1]))


def _from_array(samples: ArrayLike, own_rate: object, rate: int) -> NDArray[np.float32]:
    name = "an array of samples"
    try:
        array = np.asarray(samples)
        array = array[:, None] if array.ndim == 1 else array
        channels = array.shape[1] if array.ndim == 2 and array.dtype.kind in "iuf" else 0
    except ValueError:  # rows of different lengths
        array, channels = np.zeros(0), 0
    if not 1 <= channels <= MAX_CHANNELS:
        raise Unreadable(
            f"{name} has the wrong shape or type",
            got=f"{array.shape} of {array.dtype}",
            allowed=f"numbers (n,), or (n, channels) with at most {MAX_CHANNELS} channels",
        )
    if not isinstance(own_rate, int | np.integer):
        raise Unreadable(f"{name} has no rate", got=repr(own_rate), allowed="an integer, in Hz")
    _check_length(name, len(array), int(own_rate), channels)
    return _resampled(name, _scaled(array), int(own_rate), rate)


def _scaled(array: NDArray[Any]) -> NDArray[Any]:
    """Map the range of an integer dtype to -1 .. 1, with silence in the middle."""
    if array.dtype.kind == "f":
        return array
    bounds = np.iinfo(array.dtype)
    half = (int(bounds.max) - int(bounds.min) + 1) / 2
    return (array - (bounds.min + half)) / half


def _resampled(name: str, samples: NDArray[Any], own_rate: int, rate: int) -> NDArray[np.float32]:
    resample = optional("soxr", extra="encoders").resample
    sound: NDArray[np.float32] = resample(_mono(name, samples), own_rate, rate)
    if not len(sound):
        raise Unreadable(f"{name} is empty", got="no samples", allowed="at least one sample")
    return sound


def _mono(name: str, samples: NDArray[Any]) -> NDArray[np.float32]:
    mean = samples.mean(axis=1, dtype=np.float64)
    if not (np.abs(mean) < MAX_AMPLITUDE).all():  # also true for NaN
        raise Unreadable(
            f"{name} has samples that are not finite, or absurdly loud",
            got=f"{mean[~(np.abs(mean) < MAX_AMPLITUDE)][0]}",
            allowed=f"numbers within ±{MAX_AMPLITUDE:g}, where 1 is full scale",
        )
    mono: NDArray[np.float32] = mean.astype(np.float32)
    return mono


def _check_size(name: str, size: int) -> None:
    if size == 0:
        raise Unreadable(f"{name} is empty", got="0 bytes", allowed=AUDIO)
    if size > MAX_BYTES:
        raise Unreadable(
            f"{name} is too large", got=f"{size} bytes", allowed=f"at most {MAX_BYTES} bytes"
        )


def _check_length(name: str, length: int, rate: int, channels: int) -> None:
    if not MIN_RATE <= rate <= MAX_RATE:
        allowed = f"{MIN_RATE} to {MAX_RATE} samples per second"
        raise Unreadable(f"{name} has an unusual sampling rate", got=rate, allowed=allowed)
    if length > MAX_SECONDS * rate or length * channels > MAX_SAMPLES:
        raise Unreadable(
            f"{name} is too long",
            got=f"{length / rate:.0f} seconds, {length * channels} samples",
            allowed=f"at most {MAX_SECONDS} seconds and {MAX_SAMPLES} samples",
            remedy="Cut it into pieces.",
        )
