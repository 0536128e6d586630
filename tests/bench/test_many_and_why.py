"""Scripts about many classes, and about why answers are as they are, at their smallest sizes."""

import json
from pathlib import Path

import pytest

from helpers.known_learners import write_blobs
from helpers.markdown import lines
from helpers.scripts import run_script
from unitail.learners.fingerprints import default_stamp


def test_influence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    write_blobs(tmp_path, "cub200", encoder="efflite0", classes=6, rows=4, noise=0.5)
    options = ["--banks", tmp_path, "--draws", 2, "--shots", 2, "--out", page]
    run_script("bench/influence.py", *options, monkeypatch=monkeypatch)
    header, row = lines(page)
    assert header[:4] == ["bank", "labels a class", "influence", "signed cosines"]
    assert row[:2] == ["efflite0/cub200", "2"]
    assert float(row[2].split()[0]) > 0.2


@pytest.mark.slow
def test_many_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blobs(tmp_path / "banks", "cub200", encoder="efflite0", classes=8, rows=8, noise=0.5)
    write_blobs(tmp_path / "banks", "eth80", encoder="efflite0", classes=3, rows=8, noise=0.5)
    options = ["--banks", tmp_path / "banks", "--ways", 6, "--shots", 2, "--draws", 2]
    options += ["--classes", 5, 10, "--rows", 20, 40, "--out", tmp_path / "out"]
    options += ["--only", "*/cub200", "--joined", "efflite0/cub200+eth80", "--joined-draws", 1]
    run_script("bench/many_classes.py", *options, monkeypatch=monkeypatch)
    rows = lines(tmp_path / "out" / "README.md")
    header = ["classes", "rows", "LogisticRegression, s", "unitail, s", "ratio"]
    assert header in [row[:5] for row in rows]
    for row in (rows[-2], rows[-5]):  # log loss, accuracy
        assert row[:4] == ["efflite0/cub200", "6", "2", "2"]
    assert rows[-1][:4] == ["efflite0/cub200+eth80", "11", "2", "1"]
    assert (tmp_path / "out" / "cost.png").stat().st_size > 1000
    file = tmp_path / "out" / "rows_many.jsonl"
    known = file.read_text().splitlines()
    assert {json.loads(line)["model"] for line in known} == {default_stamp()}
    file.write_text("\n".join(line.replace(default_stamp(), "another") for line in known) + "\n")
    run_script("bench/many_classes.py", *options, monkeypatch=monkeypatch)
    assert len(file.read_text().splitlines()) == 2 * len(known), "rows of another do not count"


def test_borders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    options = ["--rows", 20, "--ways", 6, "--gaps", 2.8, "--draws", 2, "--out", page]
    run_script("bench/borders.py", *options, monkeypatch=monkeypatch)
    _, *rows = lines(page)
    means = {(row[1], row[2]): float(row[3].split()[0]) for row in rows}
    assert len(means) == 7
    assert means["5", "one row more, in pairs"] > means["5", "another order, with inducing points"]
    assert means["6", "shortlists, and fewer regressions"] > 0
