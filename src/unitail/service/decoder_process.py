"""The process that decodes uploads: with limited memory, without writing files, and free to die.

`python -m unitail.service.decoder_process BYTES` reads frames from standard input, each a JSON
header and a file's bytes, and answers each with a frame. It does not import torch.
"""

import io
import json
import signal
import struct
import sys
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.images import FORMATS, read_image
from unitail.encoders.sounds import read_sound
from unitail.errors import MissingExtra, Unreadable, optional

LENGTHS = struct.Struct("!IQ")
"""Prefix of every frame: the lengths of its header and of its content, in bytes."""

TOO_MUCH = {
    "wrong": "the file could not be decoded",
    "got": "one that needs more memory than is available",
    "allowed": "smaller files",
}


def pack(header: dict[str, Any], content: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    text = json.dumps(header, default=str).encode()
    return LENGTHS.pack(len(text), len(content)) + text + content


def decode(header: dict[str, Any], content: bytes) -> tuple[NDArray[Any], int]:
    """Decode a file: pixels (height, width, 3) and 0, or mono samples (n,) and their rate."""
    if header["modality"] == "image":
        _check_pixels(content, header["max_pixels"])
        pixels = np.asarray(read_image(content))
        _check_size(pixels.shape[1], pixels.shape[0], header["max_pixels"])
        return pixels, 0
    rate = _check_seconds(content, header["max_seconds"])
    return read_sound(content, rate), rate


def _check_pixels(content: bytes, limit: int) -> None:
    """Refuse an image by the size in its header, before any pixel is decoded."""
    pil = optional("PIL.Image", extra="encoders")
    pil.MAX_IMAGE_PIXELS = None  # our own limit is below
    pil.init()
    try:
        with pil.open(io.BytesIO(content), formats=[f for f in pil.OPEN if f in FORMATS]) as image:
            width, height = image.size
    except Exception:  # `read_image` gives the better error
        return
    _check_size(width, height, limit)


def _check_size(width: int, height: int, limit: int) -> None:
    if width * height > limit:
        raise Unreadable(
            "the image is too large",
            got=f"{width} x {height} pixels",
            allowed=f"at most {limit:,} pixels",
            remedy="Make it smaller before sending it.",
        )


def _check_seconds(content: bytes, limit: float) -> int:
    soundfile = optional("soundfile", extra="encoders")
    try:
        info = soundfile.info(io.BytesIO(content))
    except Exception:
        return 16_000  # `read_sound` gives the better error
    if info.duration > limit:
        raise Unreadable(
            "the sound is too long",
            got=f"{info.duration:.0f} seconds",
            allowed=f"at most {limit:g} seconds",
            remedy="Cut it into pieces.",
        )
    return int(info.samplerate)


def answer(header: dict[str, Any], content: bytes) -> bytes:
    """Decode the file of a frame, and return the frame with the result or the error."""
    try:
        array, rate = decode(header, content)
    except Unreadable as error:
        return pack({"error": {"wrong": error.wrong, "got": error.got, "allowed": error.allowed}})
    except MemoryError:
        return pack({"error": TOO_MUCH})
    reply = {"shape": array.shape, "dtype": array.dtype.str, "rate": rate}
    return pack(reply, np.ascontiguousarray(array).tobytes())


def read_frame(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read a frame; None at the end of the stream."""
    lengths = stream.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    header_size, content_size = LENGTHS.unpack(lengths)
    return json.loads(stream.read(header_size)), stream.read(content_size)


def confine(max_bytes: int) -> None:
    """Limit the memory of this process, and forbid it to write files; does nothing on Windows."""
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Answer frames until the input ends.

    SIGINT and SIGTERM are ignored: the server handles them, and lets requests in progress finish.
    """
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)
    for module in ("PIL.Image", "PIL.ImageOps", "soundfile", "soxr"):
        optional(module, extra="encoders")
    _register_heic()
    confine(int(sys.argv[1]))
    _write_frame(pack({"ready": True}))
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        _write_frame(answer(*frame))


def _register_heic() -> None:
    """Register HEIC with Pillow at the start, so that its image sizes are checked, too."""
    with suppress(MissingExtra):
        optional("pi_heif", extra="heic").register_heif_opener()


def _write_frame(frame: bytes) -> None:
    sys.stdout.buffer.write(frame)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
