import shutil
from pathlib import Path

import pytest

from helpers.markdown import lines
from helpers.scripts import run_script


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_studio_scroll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("playwright", reason="playwright is not installed")
    page = tmp_path / "page.md"
    options = ["--items", 120, "--turns", 2, "--out", page]
    run_script("bench/studio_scroll.py", *options, monkeypatch=monkeypatch)
    header, *rows = lines(page)
    assert [row[0] for row in rows] == [
        "all items",
        "most doubtful first",
        "all items, ten labels meanwhile",
    ]
    for row in rows:
        cells = dict(zip(header, row, strict=True))
        assert int(cells["cards there"]) < 100
        assert float(cells["work, median"]) <= float(cells["longest"])
