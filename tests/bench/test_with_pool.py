"""bench/with_pool.py asks in all ways on the same episodes."""

from pathlib import Path

import pytest

from helpers.known_learners import write_blobs
from helpers.scripts import run_script


def test_with_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, name in enumerate(("one", "two")):
        write_blobs(tmp_path / "banks", name, classes=3, rows=24, seed=seed)
    page = tmp_path / "page.md"
    options = ("--banks", tmp_path / "banks", "--shots", "2", "--episodes", "2", "--out", page)
    run_script("bench/with_pool.py", *options, monkeypatch=monkeypatch)
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines() if "| " in line]
    names = ["logistic regression", "each row by itself", "with a pool", "joint"]
    assert [row[0] for row in rows[1:]] == names
    assert all(float(row[1].split(" ")[0]) > 50 for row in rows[1:])
    assert "Labels a class: 2; data sets: 2" in page.read_text()
