import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner, Result

from helpers.colours import MeanColour
from unitail.cli.commands.predict import predict
from unitail.encoders import cache
from unitail.encoders.encoder import Encoder, Modality
from unitail.errors import UserError
from unitail.inputs import encode as vectors

app = typer.Typer()
app.command()(predict)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "cache"))


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """Write a labelled table of two classes and one to answer."""
    generator = np.random.default_rng(0)
    for name, number in (("support", 12), ("queries", 40)):
        lines = ["size,label"]
        for place in range(number):
            lines.append(f"{generator.normal(4 * (place % 2)):.4f},{'ab'[place % 2]}")
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    return tmp_path / "support.csv", tmp_path / "queries.csv"


def _run(*arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments], input=text)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _error(*arguments: object) -> str:
    result = _run(*arguments)
    assert isinstance(result.exception, UserError), result.output
    return str(result.exception)


def test_a_table_is_answered_on_screen_and_in_files(
    tables: tuple[Path, Path], tmp_path: Path
) -> None:
    out, report = tmp_path / "answers.csv", tmp_path / "report.html"
    result = _run(*tables, "--top=2", "--out", out, "--report", report)
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "table: 12 examples of 2 classes (a, b), 40 to answer." in words
    assert "Encoder: columns." in words
    assert "40 answers, the least certain first. Not shown: 10 more certain." in words
    assert result.output.count("row ") == 30
    rows = _rows(out)
    assert len(rows) == 40
    assert sum(row["answer"] == row["label"] for row in rows) >= 36
    assert "40 items with a label: " in words
    assert list(rows[0])[-1] == "probability_2"
    assert report.read_text().count("<article") == 40


def test_equal_shares_need_joint_answers(tables: tuple[Path, Path]) -> None:
    assert _run(*tables, "--joint", "--balanced").exit_code == 0
    result = _run(*tables, "--balanced")
    assert "got --balanced without --joint; allowed: --joint --balanced" in str(result.exception)


def test_json_and_joint(tables: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "answers.json"
    result = _run(*tables, "--joint", "--coverage=0.8", "--out", out)
    assert result.exit_code == 0, result.output
    table = json.loads(out.read_text())
    assert (table["joint"], table["coverage"], len(table["answers"])) == (True, 0.8, 40)


def _draw(folder: Path, colour: tuple[int, int, int], number: int) -> None:
    folder.mkdir(parents=True)
    for each in range(number):
        Image.new("RGB", (8, 8), tuple(value + each for value in colour)).save(
            folder / f"{each}.png"
        )


def _fake_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "make_encoder", lambda *_, **__: MeanColour())


def test_unreadable_files_are_listed_and_the_exit_code_is_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_encoder(monkeypatch)
    for name, colour in (("red", (200, 0, 0)), ("b[bold]lue", (0, 0, 200))):
        _draw(tmp_path / "support" / name, colour, 3)
        _draw(tmp_path / "queries" / name, colour, 2)
    bad = tmp_path / "queries" / "<script>.png"
    bad.write_bytes(b"")
    (tmp_path / "support" / "notes.pdf").write_bytes(b"")
    out = tmp_path / "out.csv"
    arguments = (tmp_path / "support", tmp_path / "queries", "--out", out)
    result = _run(*arguments)
    assert result.exit_code == 1, result.output
    assert "Skipped among the examples: 1 file outside the class folders" in result.output
    assert "1 could not be read and was skipped:" in result.stderr
    assert "<script>.png (files): " in result.stderr
    assert ["b[bold]lue/0.png", "b[bold]lue"] in [
        line.split()[:2] for line in result.output.splitlines()
    ]
    assert [row["answer"] for row in _rows(out)] == ["", *["b[bold]lue"] * 2, *["red"] * 2]
    again = _run(*arguments)
    assert "10 from the cache" in again.output
    without = _run(*arguments, "--no-cache")
    assert "encoded before" not in without.output


def test_names_that_are_not_text_are_reported_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_encoder(monkeypatch)
    for name, colour in (("red", (200, 0, 0)), ("blue", (0, 0, 200))):
        _draw(tmp_path / "support" / name, colour, 2)
    (tmp_path / "queries").mkdir()
    with open(os.fsencode(tmp_path) + b"/queries/\xff\x1b[31m.png", "wb") as file:
        file.write(b"no image")
    out, report = tmp_path / "out.json", tmp_path / "out.html"
    targets = ("--out", out, "--report", report)
    result = _run(tmp_path / "support", tmp_path / "queries", *targets)
    assert result.exit_code == 1, result.output
    name = "\N{REPLACEMENT CHARACTER}" * 2 + "[31m.png"
    assert f"  {name} (files): cannot be read as an image: got" in result.stderr
    assert "\x1b" not in result.stderr
    assert [item["name"] for item in json.loads(out.read_text())["unreadable"]] == [name]
    assert name in report.read_text()


def test_lines_of_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Letters(Encoder):  # type: ignore[type-arg]
        modality = Modality.TEXT

        def read(self, item: object) -> str:
            return str(item)

        def embed(self, batch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return np.array([[text.count(letter) for letter in "abc"] for text in batch], "f4")

    made = Letters(name="letters", width=3, fingerprint="letters", batch_size=8)
    monkeypatch.setattr(vectors, "make_encoder", lambda *_, **__: made)
    support = tmp_path / "support.csv"
    support.write_text("text,label\naaa,A\naa ab,A\nbbb,B\nbb ba,B\n")
    result = _run(support, "-", text="aaaa\n\nbbbb\n")
    assert result.exit_code == 0, result.output
    assert "Content is in the column 'text'." in result.output
    assert "Skipped among the files: 1 empty line." in result.output
    lines = [line.split()[:2] for line in result.output.splitlines()]
    assert ["aaaa", "A"] in lines
    assert ["bbbb", "B"] in lines


def test_mistakes_are_reported_before_any_work(tables: tuple[Path, Path], tmp_path: Path) -> None:
    assert "ends in .csv or .jsonl or .parquet or .xlsx or .json" in _error(
        *tables, "--out", tmp_path / "x.txt"
    )
    assert "ends in .html or .htm" in _error(*tables, "--report", tmp_path / "x.pdf")
    assert "modality" in _error(*tables, "--modality", "video")
    out_of_range = (
        "--coverage is out of range: got 1.5; allowed: a number above 0 and below 1. Give"
    )
    assert out_of_range in _error(tmp_path / "none", tables[1], "--coverage", "1.5")
    assert "no such file or folder" in _error(tmp_path / "none", tables[1])
    assert "no column of labels named 'class': got 'size', 'label'" in _error(
        *tables, "--label-column", "class"
    )
    assert _run(*tables, "--top=0").exit_code == 2


def test_only_what_is_encoded_needs_a_cache(
    tables: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.LIMIT_VARIABLE, "a lot")
    result = _run(*tables)
    assert result.exit_code == 0, result.output
    (tmp_path / "texts.csv").write_text("text,label\na b c,x\nd e f,y\n")
    assert "is not a size: got 'a lot'" in _error(tmp_path / "texts.csv", tmp_path / "texts.csv")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    assert _error().startswith("there is nothing to learn from: got neither EXAMPLES nor FILES;")
    message = _error("--model", tmp_path / "my.model")
    assert message.startswith(f"there is nothing to answer: got --model {tmp_path / 'my.model'} wi")


def test_help_is_quick_and_documents_exit_codes() -> None:
    code = (
        "import sys; from unitail.cli.commands.predict import predict; "
        "assert not {'torch', 'numpy', 'pandas', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    words = " ".join(_run("--help").output.replace("│", " ").split())
    assert "0, everything was answered; 1, some files could not be read" in words
