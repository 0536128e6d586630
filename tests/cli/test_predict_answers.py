"""Answers fit back to what they are about: tables, folders, lines."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner, Result

from helpers.colours import MeanColour
from helpers.letters import Letters
from unitail.cli.commands.predict import predict
from unitail.encoders import cache
from unitail.errors import UserError
from unitail.inputs import encode as vectors

app = typer.Typer()
app.command()(predict)
TEXTS = "text,label\naaa,A\naa ab,A\nbbb,B\nbb ba,B\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "make_encoder", lambda *_, **__: Letters())


@pytest.fixture
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "make_encoder", lambda *_, **__: MeanColour())


def _run(*arguments: object, text: str | None = None) -> Result:
    result = CliRunner().invoke(app, [str(each) for each in arguments], input=text)
    assert result.exit_code in (0, 1), (result.output, result.exception)
    return result


def _rows(path: Path | str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def _paint(path: str, colour: tuple[int, int, int]) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), colour).save(path)


@pytest.mark.usefixtures("letters")
def test_answers_join_to_the_rows_they_are_about(tmp_path: Path) -> None:
    """Rows without a text are dropped before they are encoded, and must not be before numbering."""
    Path("s.csv").write_text(TEXTS)
    long = "bab " + "b" * 300
    Path("q.csv").write_text(
        ',id,text,note\n0,i100,aaaa,x\n1,i101,,=1+1\n2,i102,"bbbb,b",\n3,i103,  ,\n'
        f"4,i104,{long},y\n"
    )
    assert _run("s.csv", "q.csv", "--out", "out.csv").exit_code == 0
    rows = _rows("out.csv")
    assert list(rows[0])[:4] == ["", "id", "text", "note"]
    assert [(row["id"], row["row"], row["answer"], row["state"]) for row in rows] == [
        ("i100", "1", "A", rows[0]["state"]),
        ("i101", "2", "", "skipped"),
        ("i102", "3", "B", rows[2]["state"]),
        ("i103", "4", "", "skipped"),
        ("i104", "5", "B", rows[4]["state"]),
    ]
    assert rows[1]["reason"] == "no text in 'text'"
    assert rows[1]["note"] == "=1+1"
    assert rows[4]["text"] == long
    joined = pd.read_csv("q.csv").merge(pd.read_csv("out.csv"), on="id")
    assert (joined["text_x"].fillna("") == joined["text_y"].fillna("")).all()


@pytest.mark.usefixtures("letters")
def test_a_table_may_be_its_own_examples() -> None:
    Path("t.csv").write_text(
        "id,text,label\n1,a a a,A\n2,a a aa,\n3,b b b,B\n4,,\n5,b b bb,\n6,a aa aa,A\n"
    )
    result = _run("t.csv", "--out", "out.csv")
    assert "3 examples of 2 classes (A, B), 2 to answer." in result.output
    rows = _rows("out.csv")
    assert [(row["id"], row["label"], row["answer"]) for row in rows] == [
        ("1", "A", "A"),
        ("2", "", "A"),
        ("3", "B", "B"),
        ("4", "", ""),
        ("5", "", "B"),
        ("6", "A", "A"),
    ]
    assert [row["state"] for row in rows][:4:2] == ["given", "given"]
    assert rows[0]["probability"] == ""


def test_rows_of_features_may_be_half_labelled_and_answered_again() -> None:
    generator = np.random.default_rng(0)
    lines = ["name,size,kind"]
    for place in range(20):
        label = "ab"[place % 2] if place < 12 else ""
        lines.append(f"n{place},{generator.normal(9 * (place % 2)):.3f},{label}")
    Path("t.csv").write_text("\n".join(lines))
    _run("t.csv", "--label-column", "kind", "--out", "first.csv")
    first = _rows("first.csv")
    assert [row["answer"] for row in first] == ["a", "b"] * 10
    result = _run("first.csv", "--label-column", "kind", "--out", "second.csv")
    assert _rows("second.csv") == first  # earlier answers are neither features nor labels
    assert "probability" not in result.output
    assert "without a label" not in result.output  # these are what is answered


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("text,label\naaa,A\nbbb,B\n", "every row of t.csv has a label: got nothing to answer"),
        ("text,label\naaa,\nbbb,\n", "no row of t.csv has a label.* into the column 'label'"),
    ],
)
@pytest.mark.usefixtures("letters")
def test_nothing_to_answer_is_reported(text: str, message: str) -> None:
    Path("t.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        CliRunner().invoke(app, ["t.csv"], catch_exceptions=False)


@pytest.mark.usefixtures("colours")
def test_loose_files_beside_class_folders_are_answered() -> None:
    for name, colour in (("red", (220, 0, 0)), ("blue", (0, 0, 220))):
        for each in range(3):
            _paint(f"box/{name}/{each}.png", tuple(value + each for value in colour))
    _paint("box/x.png", (200, 9, 9))
    _paint("box/=y.png", (9, 9, 200))
    _paint("box/.hidden.png", (9, 9, 200))
    result = _run("box", "--out", "out.csv")
    assert "6 examples of 2 classes (blue, red), 2 to answer." in result.output
    rows = _rows("out.csv")
    assert [(row["file"], row["answer"], row["label"]) for row in rows] == [
        ("box/=y.png", "blue", ""),
        ("box/x.png", "red", ""),
    ]


@pytest.mark.usefixtures("colours")
def test_files_have_the_paths_that_were_given_and_their_labels_are_scored() -> None:
    for folder in ("support", "queries"):
        for name, colour in (("red", (220, 0, 0)), ("blue", (0, 0, 220))):
            for each in range(3):
                shade = 5 if folder == "queries" else 1
                _paint(f"{folder}/{name}/{each}.png", tuple(v + shade * each for v in colour))
    _paint("queries/blue/wrong.png", (230, 3, 3))
    Path("queries/red/bad.png").write_bytes(b"")
    result = _run("support", "queries", "--out", "out.json")
    assert result.exit_code == 1
    content = json.loads(Path("out.json").read_text())
    files = [row["file"] for row in content["answers"]]
    assert files == sorted(map(str, Path("queries").rglob("*.png")))
    bad = next(row for row in content["answers"] if row["file"] == "queries/red/bad.png")
    assert (bad["answer"], bad["state"], bad["label"]) == (None, "skipped", "red")
    assert bad["reason"].startswith("is empty") or "image" in bad["reason"]
    scores = content["scores"]
    # One of each class equals an example, bad.png has no answer.
    assert (scores["items"], scores["right"]) == (5, 4)
    assert scores["not_counted_equal_to_an_example"] == 2
    assert scores["confusion"] == {"blue": {"blue": 2, "red": 1}, "red": {"red": 2}}
    words = " ".join(result.output.split())
    assert "5 items with a label: 4 correct, 80.0% (95 % interval 37.6% to 96.4%)." in words
    assert "blue 3 67% 2 100% red (1)" in words


@pytest.mark.usefixtures("letters")
def test_lines_keep_their_numbers_and_go_to_standard_output_as_json() -> None:
    Path("s.csv").write_text(TEXTS)
    result = _run("s.csv", "-", "--out", "-", text="aaaa\n\nbbbb\n")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(line["row"], line["text"], line["answer"]) for line in lines] == [
        (1, "aaaa", "A"),
        (2, "", None),
        (3, "bbbb", "B"),
    ]
    assert lines[1]["reason"] == "empty line"
    assert "4 examples of 2 classes" in result.stderr
    assert "least certain first" in result.stderr


@pytest.mark.usefixtures("letters")
def test_rows_of_several_tables_say_which() -> None:
    Path("s.csv").write_text(TEXTS)
    Path("x.csv").write_text("text,id\n,1\naaa,2\n")
    Path("y.csv").write_text("text,page\nbbbbb,7\n")
    _run("s.csv", "x.csv", "y.csv", "--out", "out.csv")
    rows = _rows("out.csv")
    assert [(row["source"], row["row"], row["id"], row["page"]) for row in rows] == [
        ("x.csv", "1", "1", ""),
        ("x.csv", "2", "2", ""),
        ("y.csv", "1", "", "7"),
    ]
    assert [row["answer"] for row in rows] == ["", "A", "B"]
