import json
from pathlib import Path

import pytest

from helpers.pictures import coloured, pixels
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
        pictures.append(target.read_bytes())
    rows = coloured(pictures[0], "C0")[:, 0]
    middle = len(pixels(pictures[0])) // 2
    assert (rows < middle).sum() > 100
    assert (rows > middle).sum() > 100
    assert (pixels(pictures[0]) != pixels(pictures[1])).any()
