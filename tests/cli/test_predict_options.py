"""Options that cannot be served are refused before anything is encoded, and none is ignored."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from helpers.colours import MeanColour
from unitail.cli.main import app
from unitail.encoders import cache
from unitail.errors import UserError
from unitail.inputs import encode as vectors
from unitail.workflows import answer_files, fit

WORKERS = ("--workers", "2", "--out", "out")


@pytest.fixture(autouse=True)
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a labelled table, one to answer, and a folder of pictures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(vectors, "make_encoder", lambda *_, **__: MeanColour())
    generator = np.random.default_rng(0)
    for name, count in (("known", 12), ("new", 6)):
        sizes = generator.normal(size=count) + 4 * (np.arange(count) % 2)
        rows = [f"{size:.3f},{'ab'[place % 2]}" for place, size in enumerate(sizes)]
        Path(f"{name}.csv").write_text("\n".join(["size,label", *rows]) + "\n")
    for name, colour in (("red", (220, 0, 0)), ("blue", (0, 0, 220))):
        Path("box", name).mkdir(parents=True)
        for place in range(3):
            shade = tuple(value + place for value in colour)
            Image.new("RGB", (8, 8), shade).save(Path("box", name, f"{place}.png"))


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--device", "cpu"])


def _error(*arguments: str) -> str:
    result = _run(*arguments)
    assert isinstance(result.exception, UserError), result.output
    return str(result.exception)


@pytest.fixture
def nothing_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "encode", lambda *_, **__: pytest.fail("encoded"))


@pytest.mark.parametrize("more", [(), WORKERS], ids=["alone", "with workers"])
def test_options_about_examples_are_refused_with_a_saved_classifier(more: tuple[str, ...]) -> None:
    assert _run("fit", "known.csv", "--save", "saved").exit_code == 0
    saved = ("predict", "--model", "saved", "new.csv", *more)
    assert "has read its examples already: got --also" in _error(*saved, "--also", "known.csv")
    both = _error(*saved, "--also", "known.csv", "--column", "size=table")
    assert "got --also and --column; allowed: with EXAMPLES only" in both
    assert _run(*saved).exit_code == 0


@pytest.mark.parametrize("more", [(), WORKERS], ids=["alone", "with workers"])
def test_options_about_columns_need_columns(more: tuple[str, ...]) -> None:
    folder = ("predict", "box", "box/red", *more)
    assert "got box, a folder of files" in _error(*folder, "--column", "size=table")
    assert "a table: got box, box/red" in _error(*folder, "--content-column", "size")
    both = ("--column", "size=table", "--content-column", "size")
    wrong = "names the only column that is used: got --content-column size and --column size=table"
    assert wrong in _error("predict", "known.csv", "new.csv", *both, *more)


@pytest.mark.parametrize("command", [("fit", "box", "--save", "saved"), ("evaluate", "box")])
def test_other_commands_refuse_them_too(command: tuple[str, ...]) -> None:
    assert "a folder of files" in _error(*command, "--column", "size=table")
    assert "at least one table" in _error(*command, "--content-column", "size")


def test_a_content_column_may_be_that_of_the_files_alone() -> None:
    lines = ["name,photo", *(f"{place},box/red/{place}.png" for place in range(3))]
    Path("list.csv").write_text("\n".join(lines))
    result = _run("predict", "box", "list.csv", "--content-column", "photo", "--out", "a.csv")
    assert result.exit_code == 0, result.output
    assert Path("a.csv").read_text().count(",red,") == 3


@pytest.mark.usefixtures("nothing_is_encoded")
def test_what_the_model_cannot_do_is_said_at_once() -> None:
    tail = ("predict", "known.csv", "new.csv", "--model", "tail", "--out", "a.csv")
    assert "got --why with --model tail" in _error(*tail, "--why")
    assert "got --pool with --model tail" in _error(*tail, "--pool", "new.csv")


@pytest.mark.usefixtures("nothing_is_encoded")
def test_rows_that_a_sheet_cannot_hold_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("predict", "known.csv", "new.csv", "--out", "a.xlsx")
    monkeypatch.setattr(answer_files, "MAX_SHEET_ROWS", 6)
    assert "cannot hold this many rows: got 7; allowed: at most 6" in _error(*command)
    monkeypatch.setattr(answer_files, "MAX_SHEET_ROWS", 7)
    Path("new.csv").write_text(f"size,note\n1,{'x' * 20}\n")
    monkeypatch.setattr(answer_files, "MAX_SHEET_CELL", 19)
    assert "this many characters in a cell: got 20" in _error(*command)


@pytest.mark.usefixtures("nothing_is_encoded")
def test_a_missing_package_for_a_file_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    wrong = _error("predict", "known.csv", "new.csv", "--out", "a.parquet")
    assert "pip install 'unitail[encoders]'" in wrong


def test_a_report_that_cannot_be_written_is_said_before_the_demo() -> None:
    result = CliRunner().invoke(app, ["demo", "--report", "nowhere/report.txt"])
    assert "nowhere/report.txt cannot be written: got no folder nowhere" in str(result.exception)
    assert result.output == ""


def test_a_dry_run_needs_a_folder_to_sort_into() -> None:
    wrong = _error("predict", "box", "box/red", "--dry-run")
    assert "--dry-run lists what --sort-into would do: got no --sort-into" in wrong


def test_a_saved_classifier_in_the_wrong_place_is_named() -> None:
    assert _run("fit", "known.csv", "--save", "saved").exit_code == 0
    remedy = "unitail predict --model saved FILES"
    for command in (
        ("predict", "saved", "new.csv"),
        ("evaluate", "saved"),
        ("fit", "known.csv", "--save", "other", "--model", "saved"),
        ("evaluate", "known.csv", "--model", "saved"),
    ):
        assert remedy in _error(*command)


def test_a_single_worker_streams_as_well() -> None:
    result = _run("predict", "known.csv", "new.csv", "--workers", "1", "--out", "out")
    assert result.exit_code == 0, result.output
    assert "out: 6 rows in 1 file; answers: " in result.output


def test_workers_print_the_notes_on_the_data() -> None:
    known = Path("known.csv").read_text()
    Path("known.csv").write_text(known + "1,\n2.5,B\n" + known.splitlines()[1][:-1] + "b\n")
    together = _run("predict", "known.csv", "new.csv", *WORKERS)
    assert together.exit_code == 0, together.output
    alone = _run("predict", "known.csv", "new.csv")
    for note in (
        "table: 14 examples of 3 classes (B, a, b)",
        "Note: 'B' and 'b' are different classes.",
        "Skipped among the examples: 1 row without a label.",
        "Encoder: columns.",
        "Equal examples with different labels: row 1 (a) = row 15 (b).",
    ):
        assert note in together.output
        assert note in alone.output


def test_what_is_answered_is_not_said_to_be_skipped() -> None:
    """Loose files without FILES; with FILES, and files of other kinds, they are skipped."""
    Image.new("RGB", (8, 8), (220, 0, 0)).save(Path("box", "loose.png"))
    Path("box", "notes.txt").write_text("a text")
    said = _run("predict", "box").output
    assert "1 answer, the least certain first" in said
    assert "outside the class folders" not in said
    assert "Skipped among the files: 1 file of other kinds (.txt)." in said
    said = " ".join(_run("predict", "box", "box/red").output.split())
    note = "Skipped among the examples: 2 files outside the class folders (loose.png, notes.txt)."
    assert note in said


def test_unlabelled_rows_of_further_examples_are_skipped() -> None:
    """The rows to answer are those of EXAMPLES."""
    Path("known.csv").write_text(Path("known.csv").read_text() + "1,\n")
    Path("more.csv").write_text("size,label\n9,a\n8,\n7,\n")
    said = _run("predict", "known.csv", "--also", "more.csv").output
    assert "13 examples of 2 classes (a, b), 1 to answer." in said
    assert said.count("without a label") == 1
    assert "Skipped among the examples: 2 rows without a label." in said
