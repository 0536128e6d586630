import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import typer
from typer.testing import CliRunner

from helpers.letters import Letters
from unitail.cli.commands.predict import predict
from unitail.encoders import cache
from unitail.inputs import encode as vectors
from unitail.inputs.items import Items, LabelledItems
from unitail.inputs.read import read_labelled, read_unlabelled
from unitail.workflows import explanations
from unitail.workflows.answer_files import AnswerTable
from unitail.workflows.explanations import nearest_rows
from unitail.workflows.predict import PredictOptions, predict_files

TEXTS = "text,label\naaa,A\naa ab,A\nbbb,B\nbb ba,B\n"


@pytest.fixture(autouse=True)
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(vectors, "make_encoder", lambda *_, **__: Letters())
    Path("known.csv").write_text(TEXTS)
    Path("new.csv").write_text("text\naaab\nbbba\n")


def test_answers_name_the_examples_that_speak_for_them() -> None:
    examples = read_labelled(Path("known.csv"))
    items = read_unlabelled([Path("new.csv")], like=examples)
    result = predict_files(examples, items, wanted=PredictOptions(why=True))
    for answer in result.answers:
        assert answer.because
        assert answer.because[0].label == answer.label
        assert examples.labels[answer.because[0].place] == answer.label
        shares = [each.share for each in answer.because]
        assert shares == sorted(shares, reverse=True)
        assert 0 < sum(shares) <= 1 + 1e-9
        assert not answer.because_columns
    assert not any(each.because for each in predict_files(examples, items).answers)


@pytest.mark.parametrize("limit", ["MAX_EXPLAINED", "MAX_CONTRIBUTIONS"])
def test_only_the_least_certain_are_explained(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(explanations, limit, 1)
    examples = read_labelled(Path("known.csv"))
    items = read_unlabelled([Path("new.csv")], like=examples)
    result = predict_files(examples, items, wanted=PredictOptions(why=True))
    named = [answer.place for answer in result.answers if answer.because]
    assert named == [result.by_uncertainty()[0].place]


def test_what_was_averaged_is_shared_among_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unitail.estimator.fitted.takes_large", lambda *_: False)
    monkeypatch.setattr("unitail.estimator.fitted.support_limit", lambda *_: 2)
    examples = read_labelled(Path("known.csv"))
    items = read_unlabelled([Path("new.csv")], like=examples)
    result = predict_files(examples, items, wanted=PredictOptions(why=True))
    assert all(answer.because for answer in result.answers)


def test_the_command_writes_and_prints_it_and_takes_its_file_again() -> None:
    rng = np.random.default_rng(0)
    rows = pandas.DataFrame({"noise": rng.normal(size=30), "size": np.arange(30) % 2 * 5.0})
    rows.assign(label=np.array(["no", "yes"])[np.arange(30) % 2]).to_csv("known.csv", index=False)
    rows[:4].to_csv("new.csv", index=False)
    app = typer.Typer()
    app.command()(predict)
    said = CliRunner().invoke(
        app, ["known.csv", "new.csv", "--why", "--out", "out.jsonl", "--report", "page.html"]
    )
    assert said.exit_code == 0, said.output
    assert "because of" in said.output
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    for line in lines:
        assert line["because"][0]["label"] == line["answer"]
        assert line["because_columns"][0]["column"] == "size"
    assert "Supporting examples, with their shares" in Path("page.html").read_text()
    assert "Supporting columns: size" in Path("page.html").read_text()
    CliRunner().invoke(app, ["known.csv", "new.csv", "--why", "--out", "out.csv"])
    again = read_labelled(Path("known.csv"))
    items = read_unlabelled([Path("out.csv")], like=again)
    assert "because" not in items.items.columns  # type: ignore[attr-defined]
    plain = AnswerTable.of(predict_files(again, items), items)
    assert not any("because" in name for name in plain.columns)


@pytest.fixture
def table() -> tuple[LabelledItems, Items]:
    rng = np.random.default_rng(0)
    rows = pandas.DataFrame({"noise": rng.normal(size=70), "size": np.arange(70) % 2 * 5.0})
    known = rows[:10].assign(label=np.array(["no", "yes"])[np.arange(10) % 2])
    known.to_csv("known.csv", index=False)
    rows[10:].to_csv("new.csv", index=False)
    examples = read_labelled(Path("known.csv"))
    return examples, read_unlabelled([Path("new.csv")], like=examples)


@pytest.mark.parametrize(("wanted", "count"), [({"cards": 40}, 20), ({"why": True}, 60)])
def test_a_report_alone_explains_the_columns_of_its_first_cards(
    wanted: dict[str, Any],
    count: int,
    table: tuple[LabelledItems, Items],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They take most of the time. All answers are explained if the user asks why."""
    monkeypatch.setattr(explanations, "MAX_COLUMN_CARDS", 20)
    done: list[tuple[int, int]] = []
    result = predict_files(
        *table, wanted=PredictOptions(**wanted), on_explained=lambda *now: done.append(now)
    )
    order = [bool(answer.because_columns) for answer in result.by_uncertainty()]
    assert order == [True] * count + [False] * (60 - count)
    assert all(answer.because for answer in result.answers)
    assert done == [(min(each, count), count) for each in range(50, count + 50, 50)]


def test_columns_explained_in_pieces_are_explained_alike(
    table: tuple[LabelledItems, Items], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = PredictOptions(why=True)
    whole = predict_files(*table, wanted=wanted)
    monkeypatch.setattr(explanations, "COLUMNS_AT_ONCE", 7)
    for one, other in zip(predict_files(*table, wanted=wanted).answers, whole.answers, strict=True):
        assert [name for name, _ in one.because_columns] == [n for n, _ in other.because_columns]
        shares = [share for _, share in other.because_columns]
        assert [share for _, share in one.because_columns] == pytest.approx(shares, abs=1e-9)


def test_near_is_what_points_the_same_way_from_the_mean() -> None:
    """Not what has the smallest distance, nor the same way from the origin."""
    mean = np.array([110.0, 110.0])
    known = mean + np.array([[1.0, 0.0], [50.0, 40.0], [-51.0, -40.0]])
    assert nearest_rows(known, mean + np.array([[60.0, 0.0]])).tolist() == [[0, 1, 2]]
    assert nearest_rows(known, known[[2, 1]])[:, 0].tolist() == [2, 1]
    assert nearest_rows(known[:2], known[:1]).shape == (1, 2)
    assert nearest_rows(known, np.empty((0, 2))).shape == (0, 3)
