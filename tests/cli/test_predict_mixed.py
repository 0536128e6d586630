"""`unitail predict`, `fit` and `evaluate` on tables of pictures, texts and numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from helpers.colours import MeanColour
from helpers.letters import Letters
from unitail.cli.main import app
from unitail.encoders.encoder import Encoder, Modality
from unitail.inputs import input_encoder, mixed

HEADER = "photo,id,notes,size"


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write examples of two classes, and new rows of which some lack a picture or a text."""

    def make(name: str, modality: Modality, **_: object) -> Encoder[Any]:
        return {Modality.IMAGE: MeanColour, Modality.TEXT: Letters}[modality]()

    for module in (mixed, input_encoder):
        monkeypatch.setattr(module, "make_encoder", make)
    monkeypatch.chdir(tmp_path)
    lines = []
    for row in range(12):
        red, text = (200 + row, "a man and a cat") if row % 2 else (60 + row, "bub by bob")
        Image.new("RGB", (2, 2), (red, 50, 50)).save(f"{row}.png")
        lines.append(f"{row}.png,{row},{text},{(200 if row % 2 else 90) + row},{'xy'[row % 2]}")
    Path("labelled.csv").write_text("\n".join([f"{HEADER},label", *lines]) + "\n")
    Image.new("RGB", (2, 2), (205, 50, 50)).save("new.png")
    new = ["new.png,77,a man and a cat,205", ",78,bub by bob,95", "new.png,79,,199"]
    Path("new.csv").write_text("\n".join([HEADER, *new]) + "\n")


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def _output(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def _answers(path: str) -> list[Any]:
    return [row["answer"] for row in json.loads(Path(path).read_text())["answers"]]


def test_all_columns_are_used_and_a_note_says_how() -> None:
    said = _output(
        _run("predict", "labelled.csv", "new.csv", "--out", "a.json", "--report", "r.html")
    )
    assert "Note: 'photo' holds images, 'notes' holds texts; to change this: --column" in said
    assert "Read as separate parts: 'photo' (image, mean-colour), 'notes' (text, Letters)" in said
    assert "Column 'id' is not used: it only tells rows apart; to use it: --column id=table" in said
    assert "Skipped among the rows: 1 empty cell of 'photo'." in said
    assert _answers("a.json") == ["y", "x", "y"]
    page = Path("r.html").read_text()
    assert page.count('<div class="image"><img') >= 2
    assert "PosixPath" not in page


def test_what_was_learned_is_saved_and_answers_alike() -> None:
    _output(_run("fit", "labelled.csv", "--save", "my.model"))
    _output(_run("predict", "labelled.csv", "new.csv", "--out", "a.json"))
    _output(_run("predict", "--model", "my.model", "new.csv", "--out", "b.json"))
    first, second = (json.loads(Path(name).read_text())["answers"] for name in ("a.json", "b.json"))
    assert first == second
    assert "encoded by mean-colour" in Path("my.model/README.md").read_text()


def test_users_say_what_columns_hold() -> None:
    options = ("--column", "photo=skip", "--column", "notes=table", "--column", "id=table")
    said = _output(_run("predict", "labelled.csv", "new.csv", *options))
    assert "Encoder: columns" in said
    wrong = _run("predict", "labelled.csv", "new.csv", "--column", "photo").exception
    assert "--column does not name a column and its kind: got 'photo'; allowed: NAME=KIND" in str(
        wrong
    )
    absent = _run("fit", "labelled.csv", "--save", "m", "--column", "foto=image").exception
    assert "a table has no column 'foto': got 'photo', 'id'" in str(absent)


def test_evaluate_uses_all_columns() -> None:
    said = _output(_run("evaluate", "labelled.csv", "--splits", "4"))
    assert "Read as separate parts: 'photo'" in said
