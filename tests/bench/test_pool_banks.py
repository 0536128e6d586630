"""bench/pool_banks.py asks in all ways on the same episodes."""

import runpy
from pathlib import Path

import pytest
import torch

from helpers.known_learners import write_blobs
from helpers.markdown import lines
from helpers.scripts import ROOT, run_script
from unitail.framework.episode import Episode, Query, Support

NAMES = ["logistic regression", "each row by itself", "joint"]


def test_pool_banks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, (name, count) in enumerate({"one": 24, "two": 24, "large": 34}.items()):
        write_blobs(tmp_path / "banks", name, classes=3, rows=count, seed=seed)
    page, kept = tmp_path / "page.md", tmp_path / "rows"
    options = ["--banks", tmp_path / "banks", "--shots", 2, "--episodes", 3, "--batch", 2]
    options += ["--pools", 10, 20, "--rows", kept, "--out", page]
    run_script("bench/pool_banks.py", *options, monkeypatch=monkeypatch)
    _, *rows = lines(page)
    assert [row[0] for row in rows[:5]] == [*NAMES, "pool of 10 a class", "pool of 20 a class"]
    assert [row[1] for row in rows[:5]] == ["3", "3", "3", "3", "1"], "one has rows for the larger"
    assert all(float(row[2]) > 50 for row in rows[:5])
    assert "Labels a class: 2; data sets: 3" in page.read_text()
    [file] = kept.iterdir()
    known = file.read_text()
    run_script("bench/pool_banks.py", *options, monkeypatch=monkeypatch)
    assert file.read_text() == known
    monkeypatch.setattr("unitail.learners.fingerprints.default_stamp", lambda: "another model")
    run_script("bench/pool_banks.py", *options, monkeypatch=monkeypatch)
    assert len(file.read_text().splitlines()) == 2 * len(known.splitlines())


def test_pools_hold_so_many_rows_of_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    script = runpy.run_path(str(ROOT / "bench/pool_banks.py"))
    rows = torch.randn(1, 30, 6, generator=torch.Generator().manual_seed(0))
    support = Support(features=rows[:, :4], class_indices=torch.tensor([[0, 0, 1, 1]]), ways=2)
    whole = Episode(
        support=support, query=Query(features=rows[:, 4:], class_indices=torch.zeros(1, 26).long())
    )
    episode, pool = script["split"](whole, 6)
    assert (episode.query.features.shape[1], pool.shape[1]) == (6, 20)
    by_pool = script["answers"](episode, pool, [4, 10])
    again = script["answers"](episode, pool[:, :8], [4])
    assert torch.equal(by_pool["pool of 4 a class"], again["pool of 4 a class"])
    assert not torch.allclose(by_pool["pool of 4 a class"], by_pool["pool of 10 a class"])
