import shutil
from pathlib import Path

import pytest

from helpers.known_learners import write_blobs
from helpers.markdown import lines
from helpers.scripts import run_script


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_studio_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("playwright", reason="playwright is not installed")
    page = tmp_path / "page.md"
    write_blobs(tmp_path / "banks", "blobs", encoder="toy", classes=4, rows=30)
    options = ["--banks", tmp_path / "banks", "--bank", "toy/blobs", "--items", 100, "--ways", 4]
    options += ["--labels", 8, "--repeats", 1, "--pause", 0.2, "--out", page]
    run_script("bench/studio_page.py", *options, monkeypatch=monkeypatch)
    header, *rows = lines(page)
    assert header == ["labels", "what", "median", "fastest", "slowest"]
    milliseconds = {row[1]: float(row[2]) for row in rows}
    assert len(milliseconds) == 5
    assert 0 < milliseconds["screen, one more"] <= milliseconds["all, one more"]
    assert 0 < milliseconds["screen, one changed"] <= milliseconds["all, one changed"]
    assert milliseconds["label next"] > 0
