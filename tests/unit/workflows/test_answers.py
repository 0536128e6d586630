import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from unitail.encoders.encoder import Modality
from unitail.errors import CannotWrite
from unitail.inputs.encode import Unread
from unitail.workflows.answers import (
    Answer,
    Answers,
    answers_as_csv,
    check_target,
    write_answers,
)


def _answer(place: int, name: str, label: str = "a", p: float = 0.75) -> Answer:
    return Answer(
        place=place,
        name=name,
        label=label,
        probability=p,
        top=((label, p), ("ö|b", 1 - p)),
        members=(label, "ö|b"),
        novelty=1 / 3,
    )


def _answers(*answers: Answer) -> Answers:
    return Answers(
        answers=answers,
        unreadable=(Unread("queries", "x.png", "is empty"),),
        repeated=(),
        modality=Modality.IMAGE,
        encoder="some",
        examples={"a": 2, "ö|b": 1},
        coverage=0.9,
        joint=False,
        num_cached=0,
    )


def _cells(found: Answers) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(answers_as_csv(found), newline="")))


def test_csv_has_a_line_for_each_answer() -> None:
    text = answers_as_csv(_answers(_answer(1, "a.png")))
    assert text == (
        "place,name,label,probability,set,novelty,label_2,probability_2\n"
        '2,a.png,a,0.75,"[""a"", ""ö|b""]",0.333333,ö|b,0.25\n'
    )


@pytest.mark.parametrize(
    "name", ['say "hi", you', "two\nlines", "ünï ✓ 名", "'quoted'", "-1", "+.5e3"]
)
def test_any_name_comes_back_from_csv(name: str) -> None:
    (row,) = _cells(_answers(_answer(0, name, label=name)))
    assert (row["name"], row["label"]) == (name, name)
    assert json.loads(row["set"]) == [name, "ö|b"]


@pytest.mark.parametrize("name", ["=1+1", "@SUM(A1)", "+cmd|x", "-2+3", "\t=1"])
def test_spreadsheets_compute_nothing(name: str) -> None:
    answer = replace(_answer(0, name, label=name), top=((name, 0.75), (name, 0.25)))
    (row,) = _cells(_answers(answer))
    assert [row["name"], row["label"], row["label_2"]] == [f"'{name}"] * 3


def test_csv_without_answers_has_its_header() -> None:
    assert answers_as_csv(_answers()) == "place,name,label,probability,set,novelty\n"


def test_json_has_all(tmp_path: Path) -> None:
    write_answers(_answers(_answer(1, "=ü")), tmp_path / "out.json")
    text = (tmp_path / "out.json").read_text(encoding="utf-8")
    assert "=ü" in text
    assert json.loads(text) == {
        "format": 1,
        "modality": "image",
        "encoder": "some",
        "examples": {"a": 2, "ö|b": 1},
        "coverage": 0.9,
        "joint": False,
        "answers": [
            {
                "place": 2,
                "name": "=ü",
                "label": "a",
                "probability": 0.75,
                "set": ["a", "ö|b"],
                "novelty": 0.333333,
                "top": [{"label": "a", "probability": 0.75}, {"label": "ö|b", "probability": 0.25}],
            }
        ],
        "unreadable": [{"source": "queries", "name": "x.png", "reason": "is empty"}],
        "repeated": [],
    }


def test_the_least_sure_come_first() -> None:
    found = _answers(_answer(0, "a", p=0.9), _answer(1, "b", p=0.4), _answer(2, "c", p=0.9))
    assert [answer.name for answer in found.by_uncertainty()] == ["b", "a", "c"]


def test_an_old_file_stays_if_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.CSV"
    write_answers(_answers(_answer(0, "old")), path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CannotWrite, match="No space left on device"):
        write_answers(_answers(_answer(0, "new")), path)
    assert "old" in path.read_text()


def test_targets_that_cannot_be_written_are_found_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CannotWrite, match=r"allowed: a name that ends in \.csv or \.json"):
        write_answers(_answers(), tmp_path / "out.xlsx")
    with pytest.raises(CannotWrite, match=r"got no folder .*none; allowed: a file in a folder"):
        check_target(tmp_path / "none" / "x.csv", ".csv")
    monkeypatch.setattr("os.access", lambda *_: False)  # whoever runs the tests may write anywhere
    with pytest.raises(CannotWrite, match="got a folder that is closed to you"):
        check_target(tmp_path / "y.csv", ".csv")
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(CannotWrite, match="got a folder of that name"):
        check_target(tmp_path / "x.csv", ".csv")
