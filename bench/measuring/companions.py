"""Test images, and companion processes that load the machine while a worker is measured."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from unitail.encoders.encoder import Modality
from unitail.encoders.encoding import encode_items
from unitail.workflows.encode_bank import encoder_for

SIDE = 320
"""Side length of a generated image in pixels."""


def make_images(folder: Path, count: int) -> None:
    """Write JPEG files of smooth random colours."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    for number in range(count):
        coarse = generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        image.save(folder / f"{number:06}.jpg", quality=90)


@contextmanager
def companions(count: int, images: Path, encoder: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start processes that encode images in a loop as background load; they start paused."""
    arguments = [sys.executable, __file__, str(images), encoder]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            started.append(subprocess.Popen(arguments, stdout=subprocess.PIPE))
        for each in started:
            assert each.stdout is not None
            assert each.stdout.readline(), "a companion could not start"
            each.send_signal(signal.SIGSTOP)
        yield started
    finally:
        for each in started:
            each.kill()
            each.wait()


@contextmanager
def at_work(companions: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Let the companions run within a context."""
    for each in companions:
        each.send_signal(signal.SIGCONT)
    try:
        yield
    finally:
        for each in companions:
            each.send_signal(signal.SIGSTOP)


def be_companion(images: Path, name: str) -> None:
    """Encode images again and again, as a worker does, after signalling that it is ready."""
    torch.set_num_threads(1)
    encoder, files = encoder_for(name, Modality.IMAGE, "cpu"), sorted(images.iterdir())
    parent = os.getppid()
    print("ready", flush=True)
    while os.getppid() == parent:  # it ends with who started it
        encode_items(encoder, files[:32])


if __name__ == "__main__":
    be_companion(Path(sys.argv[1]), sys.argv[2])
