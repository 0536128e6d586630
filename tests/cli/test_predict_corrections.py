"""Answers that somebody corrected are examples of the next call."""

import csv
from pathlib import Path

import pytest
import typer
from PIL import Image
from typer.testing import CliRunner, Result

from helpers.colours import MeanColour
from helpers.letters import Letters
from unitail.cli.commands.predict import predict
from unitail.errors import UserError
from unitail.inputs import encode as vectors

app = typer.Typer()
app.command()(predict)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, [*arguments, "--no-cache"])
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def _rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def _edit(path: str, key: str, value: str, label: str) -> None:
    """Write a label into a file of answers, as one does by hand."""
    rows = _rows(path)
    for row in rows:
        row["label"] = label if row[key] == value else row["label"]
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _paint(path: str, colour: tuple[int, ...]) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), colour).save(path)


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "make_encoder", lambda *_, **__: MeanColour())
    for name, colour in (("red", (220, 0, 0)), ("blue", (0, 0, 220))):
        for each in range(3):
            _paint(f"box/{name}/{each}.png", tuple(value + each for value in colour))
    _paint("new/deep/x.png", (0, 200, 0))
    _paint("new/y.png", (10, 200, 10))
    _paint("new/=z.png", (10, 9, 200))


@pytest.mark.usefixtures("pictures")
def test_corrections_of_files_are_taken_wherever_they_were_written() -> None:
    """The paths in the answers begin where the command was called, not beside the answers."""
    Path("results").mkdir()
    _run("box", "new", "--out", "results/first.csv")
    assert {row["answer"] for row in _rows("results/first.csv")} <= {"red", "blue"}
    _edit("results/first.csv", "file", "new/deep/x.png", "green")
    result = _run("box", "new", "--also", "results/first.csv", "--out", "second.csv")
    assert "7 examples of 3 classes (blue, green, red), 2 to answer." in result.output
    rows = {row["file"]: row for row in _rows("second.csv")}
    assert [rows[name]["answer"] for name in ("new/deep/x.png", "new/y.png")] == ["green", "green"]
    assert rows["new/deep/x.png"]["state"] == "given"
    assert rows["new/=z.png"]["answer"] == "blue"


@pytest.mark.usefixtures("pictures")
def test_answers_without_labels_are_no_examples() -> None:
    _run("box", "new", "--out", "first.csv")
    result = CliRunner().invoke(app, ["box", "new", "--also", "first.csv"])
    assert isinstance(result.exception, UserError)
    assert "no row of first.csv has a label" in str(result.exception)
    assert "Write the class of some rows into the column 'label'" in str(result.exception)


@pytest.mark.parametrize("name", ["first.csv", "first.jsonl", "first.parquet", "first.xlsx"])
def test_every_format_is_taken_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "make_encoder", lambda *_, **__: Letters())
    Path("s.csv").write_text("text,label\naaa,A\naa ab,A\nbbb,B\nbb ba,B\n")
    Path("q.csv").write_text("id,text,label\n1,aaaa,\n2,ab ab ab,C\n3,,\n4,ba ba,\n")
    _run("s.csv", "q.csv", "--out", name)
    result = _run("s.csv", "q.csv", "--also", name, "--out", "second.csv")
    assert "5 examples of 3 classes (A, B, C), 2 to answer." in result.output
    rows = _rows("second.csv")
    assert [row["id"] for row in rows] == ["1", "2", "3", "4"]
    assert [row["state"] for row in rows][1:3] == ["given", "skipped"]
    assert [row["answer"] for row in rows][:3] == ["A", "C", ""]


def test_labels_written_into_a_half_labelled_table_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "make_encoder", lambda *_, **__: Letters())
    Path("t.csv").write_text("text,label\na a aa,A\nb b bb,B\na b ab,\nb b b,\n")
    _run("t.csv", "--out", "first.csv")
    _edit("first.csv", "text", "a b ab", "=C")
    result = _run("first.csv", "--out", "second.csv")
    assert "3 examples of 3 classes (=C, A, B), 1 to answer." in result.output
    assert [row["answer"].removeprefix("'") for row in _rows("second.csv")][2] == "=C"


def test_corrected_answers_about_rows_replace_the_rows() -> None:
    lines = ["size,colour,label"]
    lines += [f"{place % 9},{'red' if place % 2 else 'blue'}," for place in range(18)]
    lines[1:13] = [f"{line}{'tall' if line > '4' else 'small'}" for line in lines[1:13]]
    Path("t.csv").write_text("\n".join(lines) + "\n")
    _run("t.csv", "--out", "a.csv")
    first = _rows("a.csv")
    rows = _rows("a.csv")
    rows[0]["label"], rows[17]["label"] = "tall", "other"
    with Path("a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    result = _run("t.csv", "--also", "a.csv", "--out", "b.csv")
    assert "13 examples of 3 classes (other, small, tall), 5 to answer." in result.output
    assert "Equal examples with different labels" not in result.output
    second = _rows("b.csv")
    assert (second[17]["state"], second[17]["answer"]) == ("given", "other")
    novelties = [[float(row["novelty"]) for row in each[12:17]] for each in (first, second)]
    assert max(novelties[1]) < max(0.95, *novelties[0])
