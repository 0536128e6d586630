import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.scripts import run_script


def _log(folder: Path, accuracies: list[float]) -> Path:
    entries: list[dict[str, object]] = []
    for step, accuracy in enumerate(accuracies):
        entries.append({"step": step, "loss": 1.0, "share_of_chance": 1 - accuracy})
        row = {"accuracy": accuracy, "half_width": 0.02, "episodes": 9, "prototypes": 0.5}
        entries.append({"step": step, "validation": {"1-shot": row}})
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_the_picture_shows_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = []
    for number, accuracies in enumerate([[0.2, 0.4, 0.9], [0.2, 0.8, 0.9]]):
        target = tmp_path / f"{number}.png"
        log = _log(tmp_path, accuracies)
        run_script("tools/plot_run.py", log, target, monkeypatch=monkeypatch)
        pictures.append(np.asarray(Image.open(target).convert("RGB")).astype(int))
    one, other = pictures
    blue = (one[..., 2] > one[..., 0] + 80).nonzero()[0]  # the lines are in the first colour
    middle = len(one) // 2
    assert (blue < middle).sum() > 100
    assert (blue > middle).sum() > 100
    assert (one != other).any()
