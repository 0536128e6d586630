"""bench/with_pool.py asks in all ways on the same episodes."""

from pathlib import Path

import pytest

from helpers.known_learners import write_blobs
from helpers.markdown import lines
from helpers.scripts import run_script

NAMES = ["logistic regression", "each row by itself", "joint"]


def test_with_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, (name, count) in enumerate({"one": 24, "two": 24, "large": 34}.items()):
        write_blobs(tmp_path / "banks", name, classes=3, rows=count, seed=seed)
    page, kept = tmp_path / "page.md", tmp_path / "rows"
    options = ["--banks", tmp_path / "banks", "--shots", 2, "--episodes", 3, "--batch", 2]
    options += ["--pools", 10, 20, "--rows", kept, "--out", page]
    run_script("bench/with_pool.py", *options, monkeypatch=monkeypatch)
    _, *rows = lines(page)
    assert [row[0] for row in rows[:5]] == [*NAMES, "pool of 10 a class", "pool of 20 a class"]
    assert [row[1] for row in rows[:5]] == ["3", "3", "3", "3", "1"], "one has rows for the larger"
    assert all(float(row[2]) > 50 for row in rows[:5])
    assert "Labels a class: 2; data sets: 3" in page.read_text()
    [file] = kept.iterdir()
    known = file.read_text()
    run_script("bench/with_pool.py", *options, monkeypatch=monkeypatch)
    assert file.read_text() == known
    monkeypatch.setattr("unitail.learners.fingerprints.default_stamp", lambda: "another model")
    run_script("bench/with_pool.py", *options, monkeypatch=monkeypatch)
    assert len(file.read_text().splitlines()) == 2 * len(known.splitlines())
