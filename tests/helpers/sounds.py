"""Folders of tiny sounds, a kind for each class."""

from pathlib import Path

import numpy as np
import soundfile

RATE = 16_000
KINDS = ("hum", "hiss", "beep")


def write_sounds(folder: Path, count: int = 4, seconds: float = 0.2) -> Path:
    """Write FOLDER/KIND/NUMBER.wav for each kind."""
    generator = np.random.default_rng(0)
    time = np.arange(int(RATE * seconds)) / RATE
    for kind in KINDS:
        (folder / kind).mkdir(parents=True)
        for number in range(count):
            pitch = generator.uniform(80, 160) * (10 if kind == "beep" else 1)
            wave = np.sin(2 * np.pi * pitch * time)
            noise = generator.normal(size=len(time))
            sound = 0.3 * noise if kind == "hiss" else 0.5 * wave + 0.01 * noise
            soundfile.write(folder / kind / f"{number}.wav", sound.astype(np.float32), RATE)
    return folder
