import csv
import json
from pathlib import Path

import numpy as np
import pytest

from helpers.blobs import blobs
from helpers.known_learners import SolvesNothing, SureOfFirst
from helpers.letters import Letters
from unitail.baselines.proto_head import ProtoHead
from unitail.encoders.encoder import Modality
from unitail.errors import CannotWrite
from unitail.estimator.rows import Rows
from unitail.inputs.encode import Among, Unread
from unitail.inputs.input_encoder import ItemEncoder
from unitail.workflows.learning_curve.curve import OwnCurve, own_curve
from unitail.workflows.learning_curve.data import OwnData
from unitail.workflows.learning_curve.interval import Estimate
from unitail.workflows.learning_curve.report import (
    check_folder,
    lines,
    percent,
    sentences,
    write_curve,
)

TOY = ItemEncoder(encoder=Letters(), named=False)
LEARNERS = {"unitail": ProtoHead(), "first": SureOfFirst(), "cannot": SolvesNothing()}


@pytest.fixture(scope="module")
def data() -> OwnData:
    features, indices, _, _ = blobs(ways=3, shots=7)
    return OwnData(
        rows=Rows(features, indices, 3),
        classes=("ant", "bee", "cat"),
        modality=Modality.IMAGE,
        made_by=TOY,
        unreadable=(Unread(Among.EXAMPLES, "bee/x.png", "no image"),),
    )


@pytest.fixture(scope="module")
def curve(data: OwnData) -> OwnCurve:
    return own_curve(data.rows, LEARNERS, splits=10)


def test_there_is_a_line_for_each_number(curve: OwnCurve) -> None:
    entries = [(line.how, line.examples, line.learner) for line in lines(curve)]
    assert entries[:2] == [("random splits", 1, "unitail"), ("random splits", 1, "first")]
    assert entries[-4:] == [
        ("leave-one-out", 6, "unitail"),
        ("leave-one-out", 6, "first"),
        ("forecast", 12, "unitail"),
        ("forecast", 12, "first"),
    ]
    assert len(entries) == 12


def test_sentences_say_what_matters(curve: OwnCurve, data: OwnData) -> None:
    few, first, everything, twice, *confused = sentences(curve, data)
    accuracy = curve.accuracy("unitail")
    assert few == f"With 5 examples per class, the accuracy is about {percent(accuracy[3])}."
    assert first.startswith("On the same splits, first: 33 % (unitail: ahead, +")
    assert "all but one example of each class (6 per class)" in everything
    assert "With twice as many (12 per class), it would be about" in twice
    assert (curve.confusions("unitail"), confused) == ([], [])


def test_a_worse_learner_is_said_to_be_behind(data: OwnData) -> None:
    curve = own_curve(data.rows, {"unitail": SureOfFirst(), "p": ProtoHead()}, splits=10)
    messages = sentences(curve, data)
    assert "unitail: behind, -" in messages[1]
    assert messages[-1].endswith("bee answered as ant (7 of 7), cat answered as ant (7 of 7).")


def test_equal_learners_are_not_told_apart(data: OwnData) -> None:
    curve = own_curve(data.rows, {"unitail": ProtoHead(), "p": ProtoHead()}, splits=10)
    assert "no clear difference, +0.0 ± 0.0 points" in sentences(curve, data)[1]


def test_a_task_that_cannot_be_solved_is_reported(data: OwnData) -> None:
    curve = own_curve(data.rows, {"unitail": SolvesNothing()}, splits=2)
    assert sentences(curve, data)[0].startswith("unitail cannot solve this task: too many classes")
    assert list(lines(curve)) == []


def test_two_examples_of_each_class_are_enough() -> None:
    features, indices, _, _ = blobs(ways=3, shots=2)
    data = OwnData(
        rows=Rows(features, indices, 3),
        classes=("ant", "bee", "cat"),
        modality=Modality.TEXT,
        made_by=TOY,
    )
    messages = sentences(own_curve(data.rows, {"unitail": ProtoHead()}, splits=5), data)
    assert messages[0].startswith("With 1 example per class")


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0.88, 0.94, "91 % ± 3"), (0.5, 0.95, "91 % (50 to 95)"), (0.909, 0.911, "91 % ± 1")],
)
def test_an_accuracy_is_written_with_its_interval(low: float, high: float, words: str) -> None:
    assert percent(Estimate(0.91, low, high)) == words


def test_a_smaller_class_is_mentioned_in_the_summary() -> None:
    features, indices, _, _ = blobs(ways=3, shots=4)
    few = Rows(features, indices, 3).take(np.argsort(indices, kind="stable")[3:])
    data = OwnData(rows=few, classes=("a", "b", "c"), modality=Modality.TEXT, made_by=TOY)
    messages = sentences(own_curve(few, {"unitail": ProtoHead()}, splits=5), data)
    assert messages[0].startswith("With up to 3 examples (2.33 on average) per class")


def test_a_folder_that_cannot_be_made_is_reported_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match="could not be written"):
        check_folder(tmp_path / "file" / "out")
    check_folder(tmp_path / "new" / "out")
    assert (tmp_path / "new" / "out").is_dir()


def test_files_hold_the_numbers(curve: OwnCurve, data: OwnData, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    write_curve(curve, data, folder)
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    with (folder / "curve.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == 12
    first = curve.accuracy("unitail")[0]
    assert float(table[0]["accuracy"]) == pytest.approx(first.mean, abs=1e-4)
    assert float(table[0]["low"]) == pytest.approx(first.low, abs=1e-4)
    assert (table[0]["spread"] != "", table[-1]["spread"]) == (True, "")
    whole = json.loads((folder / "curve.json").read_text())
    assert whole["examples"] == {"ant": 7, "bee": 7, "cat": 7}
    assert whole["unreadable"] == [{"name": "bee/x.png", "reason": "no image"}]
    assert list(whole["cannot"]) == ["cannot"]
    assert [line["accuracy"] for line in whole["curve"]] == [
        float(row["accuracy"]) for row in table
    ]
    assert np.isfinite(whole["curve"][-1]["high"])


def test_a_folder_that_cannot_be_made_is_reported(
    curve: OwnCurve, data: OwnData, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match="could not be written"):
        write_curve(curve, data, tmp_path / "file")
