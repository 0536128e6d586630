import csv
import subprocess
import sys
from pathlib import Path

import pytest

from unitail.datasets.loader import check_files_exist, read_rows
from unitail.errors import InvalidInput


def test_texts_of_any_length_are_rows(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    long = "word " * 50_000
    (tmp_path / "t.csv").write_text(f"'text' , label\n{long},'a'\n\nshort,b\n")
    rows = read_rows(tmp_path / "t.csv")
    assert next(rows) == (2, {"text": long.strip(), "label": "a"})
    assert csv.field_size_limit() == before, "also while rows are left to read"
    assert list(rows) == [(4, {"text": "short", "label": "b"})]


def test_an_import_leaves_pythons_limit_on_cells() -> None:
    code = "import csv, unitail.datasets.loader; print(csv.field_size_limit())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 131_072


def test_missing_files_are_named_from_the_folder_on_or_in_full(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    elsewhere = tmp_path.parent / "elsewhere.png"
    items = [tmp_path / "here", tmp_path / "a" / "lost.png", elsewhere, "a text"]
    with pytest.raises(InvalidInput) as caught:
        check_files_exist(items, tmp_path)
    assert f"got 2 of 4: {Path('a/lost.png')}, {elsewhere}; allowed: all" in str(caught.value)
    check_files_exist(items[:1], tmp_path)
