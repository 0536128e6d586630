import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import typer
from numpy.typing import NDArray
from typer.testing import CliRunner

from helpers.sounds import write_sounds
from helpers.wavy_table import wavy_table
from unitail.cli import evaluate as command
from unitail.cli.commands.evaluate import evaluate
from unitail.cli.evaluate import our_learner
from unitail.errors import CannotWrite, InvalidConfig, InvalidInput
from unitail.estimator.as_learner import ClassifierLearner
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.rows import as_support
from unitail.inputs.input_encoder import InputEncoder
from unitail.inputs.items import ReadOptions
from unitail.inputs.read import read_labelled
from unitail.workflows.fit import ClassifierOptions
from unitail.workflows.learning_curve.data import encode_own
from unitail.workflows.predict import PredictOptions, predict_files

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(evaluate)
OPTIONS = ClassifierOptions(device="cpu")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNITAIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three kinds of flowers, six rows each."""
    generator = np.random.default_rng(0)
    kinds = np.repeat(["daisy", "rose", "tulip [red]"], 6)
    means = np.repeat([[0, 0], [3, 0], [0, 3]], 6, axis=0)
    rows = pd.DataFrame(means + generator.normal(size=means.shape), columns=["height", "width"])
    rows["colour"] = ["white", "red"] * 9
    rows["kind"] = kinds
    rows.to_csv(tmp_path / "flowers.csv", index=False)
    return tmp_path / "flowers.csv"


def test_of_a_table_is_measured_what_a_classifier_with_an_encoder_answers(tmp_path: Path) -> None:
    known = wavy_table()
    known.to_csv(tmp_path / "known.csv", index=False)
    rows = known.drop(columns="label")
    own = TailClassifier(encoder="auto", random_state=0, device="cpu").fit(rows, known["label"])
    data = encode_own(read_labelled(tmp_path / "known.csv"), OPTIONS)
    ours = our_learner(data.made_by, OPTIONS)
    answers = ours.infer(as_support(data.rows), torch.from_numpy(data.rows.features)[None])
    np.testing.assert_allclose(answers[0], own.predict_log_proba(rows), atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [{"model": "tail"}, {"joint": True}, {"joint": True, "balanced": True}],
    ids=" ".join,
)
def test_the_same_options_are_measured_as_predict_answers_with(
    options: dict[str, Any], table: Path
) -> None:
    """Another model, joint answers and balanced classes each give other probabilities."""
    examples = read_labelled(table, ReadOptions("kind"))
    chosen = ClassifierOptions(device="cpu", **options)
    answered = predict_files(examples, examples, chosen, PredictOptions(top=3)).answers
    data = encode_own(examples, chosen)

    def measured(options: ClassifierOptions) -> NDArray[np.float64]:
        learner = our_learner(data.made_by, options)
        queries = torch.from_numpy(data.rows.features)[None]
        return np.exp(learner.infer(as_support(data.rows), queries)[0].numpy())

    expected = [[dict(each.top)[name] for name in data.classes] for each in answered]
    np.testing.assert_allclose(measured(chosen), expected, atol=1e-6)
    without = dict(list(options.items())[:-1])
    assert np.abs(measured(replace(OPTIONS, **without)) - expected).max() > 1e-3


def test_the_command_measures_what_its_options_say(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[ClassifierOptions] = []

    def our_learner(encoder: InputEncoder, options: ClassifierOptions) -> ClassifierLearner:
        measured.append(options)
        return ClassifierLearner.of(options.classifier(encoder))

    monkeypatch.setattr(command, "our_learner", our_learner)
    more = tmp_path / "more.csv"
    more.write_text("height,width,colour,kind\n" + "0.5,0.5,white,daisy\n" * 2)
    options = ["--joint", "--balanced", "--also", str(more), "--device", "cpu"]
    known = [str(table), "--label-column", "kind", "--splits", "2"]
    result = CliRunner().invoke(app, [*known, *options], catch_exceptions=False)
    assert "20 examples of 3 classes" in result.stdout
    CliRunner().invoke(app, [*known, "--model", "tail", "--device", "cpu"], catch_exceptions=False)
    assert measured == [
        ClassifierOptions(joint=True, balanced=True, device="cpu"),
        ClassifierOptions(model="tail", device="cpu"),
    ]
    with pytest.raises(InvalidConfig, match="--balanced only applies to joint answers"):
        CliRunner().invoke(app, [*known, "--balanced"], catch_exceptions=False)


def test_a_table_gets_its_curve(table: Path, tmp_path: Path) -> None:
    options = ["--label-column", "kind", "--splits", "10", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [str(table), *options])
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    for part in (
        "table: 18 examples of 3 classes (daisy, rose, tulip [red]).",
        "prototypes",
        "leave-one-out",
        "about 10 forecast",
        "With 5 examples per class, the accuracy is about",
        "it would be about",
    ):
        assert part in words
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "curve.csv",
        "curve.json",
        "curve.png",
    ]
    whole = json.loads((tmp_path / "out" / "curve.json").read_text())
    best = [line["accuracy"] for line in whole["curve"] if line["learner"] == "unitail"]
    assert best[-2] > 0.6


def test_the_seed_decides_the_numbers(table: Path, tmp_path: Path) -> None:
    outputs = []
    for seed in ("1", "1", "2"):
        options = ["--label-column", "kind", "--splits", "5", "--seed", seed, "--joint"]
        outputs.append(CliRunner().invoke(app, [str(table), *options]).stdout)
    assert outputs[0] == outputs[1] != outputs[2]


def test_broken_files_are_listed_and_the_exit_code_is_1(tmp_path: Path, own_cache: Path) -> None:
    folder = write_sounds(tmp_path / "my sounds")
    (folder / "hum" / "broken.wav").write_bytes(b"RIFF")
    command = [str(folder), "--splits", "3", "--no-cache"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "Encoder: log-mel." in result.stdout
    assert "1 could not be read and was skipped:\n  hum/broken.wav: " in result.stderr
    assert not own_cache.exists()
    CliRunner().invoke(app, command[:-1])
    assert own_cache.exists()


def test_a_folder_without_classes_and_an_unknown_modality_are_refused(
    tmp_path: Path, table: Path
) -> None:
    with pytest.raises(InvalidInput, match="does not hold labelled examples"):
        CliRunner().invoke(app, [str(tmp_path / "none")], catch_exceptions=False)
    with pytest.raises(InvalidConfig, match="smell"):
        CliRunner().invoke(app, [str(table), "--modality", "smell"], catch_exceptions=False)


def test_too_few_examples_are_refused(tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("x,y,label\n1,2,a\n2,3,b\n3,3,c\n4,4,d\n")
    with pytest.raises(InvalidInput, match="too few labelled examples"):
        CliRunner().invoke(app, [str(tmp_path / "few.csv")], catch_exceptions=False)


def test_a_folder_that_cannot_be_written_is_reported_before_the_work(table: Path) -> None:
    arguments = [str(table), "--label-column", "kind", "--out", str(table / "out")]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, CannotWrite)
    assert result.stdout == ""
    result = CliRunner().invoke(app, [*arguments[:-1], str(table)])
    assert "flowers.csv is not a folder: got a file of that name" in str(result.exception)


def test_labels_that_look_wrong_are_named(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    kinds = np.arange(40) % 4
    rows = pd.DataFrame(generator.normal(size=(40, 4)) + 12 * np.eye(4)[kinds])
    rows["label"] = np.array(["ant", "bee", "cat", "dog"])[kinds]
    rows.loc[9, "label"] = "dog"
    rows.to_csv(tmp_path / "rows.csv", index=False)
    options = ["--splits", "2", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [str(tmp_path / "rows.csv"), *options])
    words = " ".join(result.stdout.split())
    assert "1 label may be wrong, please check: row 10 is labelled dog, looks like bee (" in words
    [flagged] = json.loads((tmp_path / "out" / "curve.json").read_text())["suspicious"]
    assert (flagged["name"], flagged["label"], flagged["likely"]) == ("row 10", "dog", "bee")
    assert flagged["label_probability"] < 0.05 < 0.9 < flagged["likely_probability"]
