import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

from helpers.colours import MeanColour
from helpers.letters import Letters
from unitail import TailClassifier
from unitail.cli.main import app
from unitail.encoders.encoder import Encoder
from unitail.errors import (
    CannotWrite,
    InvalidCheckpoint,
    InvalidConfig,
    InvalidInput,
    UserError,
)
from unitail.inputs import encode, input_encoder
from unitail.learners import checkpoint
from unitail.learners.checkpoint import save_model
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational

COLOURS = {"red": (200, 0, 0), "blue": (0, 0, 200)}


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def _error(kind: type[UserError], *arguments: object) -> str:
    result = _run(*arguments)
    assert isinstance(result.exception, kind), result.output
    return str(result.exception)


def _use(monkeypatch: pytest.MonkeyPatch, encoder: Encoder[object]) -> None:
    for module in (encode, input_encoder):
        monkeypatch.setattr(module, "make_encoder", lambda *_, **__: encoder)


def _answers(path: Path) -> list[object]:
    keys = ("label", "probability", "set", "novelty")
    return [[each[key] for key in keys] for each in json.loads(path.read_text())["answers"]]


def _same_answers(examples: Path, files: Path, folder: Path, *options: object) -> str:
    """Answer from examples, and from what was learned of them, and compare."""
    model, first, second = folder / "my.model", folder / "1.json", folder / "2.json"
    fitted = _run("fit", examples, "--save", model, "--no-cache", *options)
    assert fitted.exit_code == 0, fitted.output
    words = "".join(fitted.output.split())  # a long path is cut at the end of a line
    assert f"Touseit:unitailpredict--model{model}FILES" in words
    direct = _run("predict", examples, files, "--out", first, "--no-cache", *options)
    assert direct.exit_code == 0, direct.output
    later = _run("predict", "--model", model, files, "--out", second, "--no-cache")
    assert later.exit_code == 0, later.output
    assert _answers(first) == _answers(second)
    assert len(_answers(first)) > 0
    return later.output


@pytest.fixture
def pictures(tmp_path: Path) -> tuple[Path, Path]:
    for name, colour in COLOURS.items():
        for place in range(6):
            folder = tmp_path / ("unsorted" if place > 3 else f"labelled/{name}")
            folder.mkdir(parents=True, exist_ok=True)
            shade = tuple(value + 5 * place for value in colour)
            Image.new("RGB", (8, 8), shade).save(folder / f"{name}{place}.png")
    return tmp_path / "labelled", tmp_path / "unsorted"


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    generator = np.random.default_rng(0)
    for name, number in (("labelled", 20), ("new", 9)):
        lines = ["size,colour,day,label"]
        for place in range(number):
            kind = place % 2
            size, day = generator.normal(3 * kind), f"2026-01-{1 + (7 * place) % 28:02d}"
            label = "ab"[kind] if name == "labelled" else ""
            lines.append(f"{size:.4f},{['red', 'blue'][kind]},{day},{label}")
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    return tmp_path / "labelled.csv", tmp_path / "new.csv"


def test_images(
    pictures: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _use(monkeypatch, MeanColour())
    output = _same_answers(*pictures, tmp_path)
    assert "image: 8 examples of 2 classes (blue, red), 4 to answer." in output
    loaded = TailClassifier.load(tmp_path / "my.model")
    files = sorted(pictures[1].iterdir())
    assert list(loaded.predict(files)) == ["blue", "blue", "red", "red"]
    assert "## " not in (tmp_path / "my.model" / "README.md").read_text()
    assert "| blue | 4 |" in (tmp_path / "my.model" / "README.md").read_text()


def test_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, Letters())
    examples, asked = tmp_path / "labelled.csv", tmp_path / "new.csv"
    examples.write_text("note,text,label\n1,aaa,A\n1,aa ab,A\n2,bbb,B\n2,bb ba,B\n")
    asked.write_text("note,text\n9,aaaa\n8,abbb\n7,bbbb\n")
    _same_answers(examples, asked, tmp_path, "--content-column", "text")
    lines = CliRunner().invoke(
        app, ["predict", "--model", str(tmp_path / "my.model"), "-"], input="aaaa\n"
    )
    assert "aaaa" in lines.output, lines.output


def test_tables(tables: tuple[Path, Path], tmp_path: Path) -> None:
    output = _same_answers(*tables, tmp_path)
    assert "Encoder: columns." in output


def test_a_table_without_a_column_is_reported(tables: tuple[Path, Path], tmp_path: Path) -> None:
    model = tmp_path / "my.model"
    _run("fit", tables[0], "--save", model)
    tables[1].write_text("size,day\n1.0,2026-01-01\n")
    message = _error(InvalidInput, "predict", "--model", model, tables[1])
    assert "got no 'colour'" in message


def test_joint_answers_are_chosen_when_asking(tables: tuple[Path, Path], tmp_path: Path) -> None:
    model, out = tmp_path / "my.model", tmp_path / "out.json"
    _run("fit", tables[0], "--save", model)
    result = _run("predict", "--model", model, tables[1], "--joint", "--balanced", "--out", out)
    assert result.exit_code == 0, result.output
    assert json.loads(out.read_text())["joint"] is True


def test_another_revision_of_the_encoder_is_refused(
    pictures: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _use(monkeypatch, MeanColour())
    model = tmp_path / "my.model"
    _run("fit", pictures[0], "--save", model)
    other = MeanColour()
    other.fingerprint = "another revision"
    _use(monkeypatch, other)
    message = _error(InvalidCheckpoint, "predict", "--model", model, pictures[1])
    assert "is not the one that the classifier was fitted with" in message
    assert "another revision" in message


@pytest.mark.parametrize("name", ["classifier.json", "support.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_damaged_folders_are_reported_in_one_sentence(
    name: str, damage: str, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    model = tmp_path / "my.model"
    _run("fit", tables[0], "--save", model)
    path = model / name
    content = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[:-30])
    message = _error(InvalidCheckpoint, "predict", "--model", model, tables[1])
    assert "does not hold a classifier that can be loaded" in message
    assert "\n" not in message


def test_wrong_folders_are_reported(tables: tuple[Path, Path], tmp_path: Path) -> None:
    message = _error(InvalidCheckpoint, "predict", "--model", tmp_path / "nope", tables[1])
    assert "nope is not a model: got no such folder; allowed: a folder that `unitail fit" in message
    message = _error(InvalidCheckpoint, "predict", "--model", tmp_path, tables[1])
    assert "got another folder or file" in message
    vectors = TailClassifier().fit(np.eye(4), [0, 0, 1, 1]).save(tmp_path / "vectors")
    message = _error(InvalidInput, "predict", "--model", vectors, tables[1])
    assert "was fitted on vectors" in message
    message = _error(InvalidInput, "predict", "--model", vectors, tables[1], "--encoder", "minilm")
    assert "got --encoder minilm" in message


def test_what_is_there_is_not_overwritten(tables: tuple[Path, Path], tmp_path: Path) -> None:
    message = _error(CannotWrite, "fit", tables[0], "--save", tmp_path)
    assert "holds something other than a classifier" in message
    message = _error(CannotWrite, "fit", tables[0], "--save", tables[1])
    assert "new.csv is a file" in message


def test_unreadable_examples_are_listed(
    pictures: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _use(monkeypatch, MeanColour())
    (pictures[0] / "red" / "broken.png").write_bytes(b"")
    result = _run("fit", pictures[0], "--save", tmp_path / "my.model")
    assert result.exit_code == 1
    assert "1 could not be read and was skipped:" in result.stderr
    assert (tmp_path / "my.model" / "classifier.json").exists()


def test_more_examples_are_learned_from(tables: tuple[Path, Path], tmp_path: Path) -> None:
    more = tmp_path / "more.csv"
    more.write_text("size,colour,day,label\n9.0,green,2026-01-05,c\n9.1,green,2026-01-06,c\n")
    result = _run("fit", tables[0], "--also", more, "--save", tmp_path / "my.model")
    assert result.exit_code == 0, result.output
    assert "table: 22 examples of 3 classes (a, b, c)." in result.output
    assert list(TailClassifier.load(tmp_path / "my.model").classes_) == ["a", "b", "c"]


def test_help_is_quick() -> None:
    code = (
        "import sys; from unitail.cli.commands.fit import fit; "
        "assert not {'torch', 'numpy', 'pandas', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_pool_is_read_with_the_examples_now_or_later(
    tables: tuple[Path, Path], tmp_path: Path
) -> None:
    examples, files = tables
    pool = tmp_path / "pool.csv"
    rows = [f"{size / 10},{'red' if size % 2 else 'green'},2026-01-05" for size in range(40)]
    pool.write_text("\n".join(["size,colour,day", *rows]))
    beside = ("--pool", pool)
    _same_answers(examples, files, tmp_path, *beside)
    assert len(TailClassifier.load(tmp_path / "my.model").fitted_.pool) == 40
    plain, later = tmp_path / "plain.json", tmp_path / "later.json"
    assert _run("predict", examples, files, "--out", plain, "--no-cache").exit_code == 0
    assert _answers(plain) != _answers(tmp_path / "1.json")
    _run("fit", examples, "--save", tmp_path / "other.model", "--no-cache")
    result = _run("predict", "--model", tmp_path / "other.model", files, *beside, "--out", later)
    assert "a pool of 40 without labels." in " ".join(result.output.split())
    assert _answers(later) == _answers(tmp_path / "1.json")
    assert "got --pool and --joint; allowed: one of them" in _error(
        InvalidConfig, "predict", examples, files, *beside, "--joint"
    )


@pytest.mark.parametrize(
    "command",
    [
        ("predict", "EXAMPLES", "FILES"),
        ("predict", "EXAMPLES", "FILES", "--why"),
        ("predict", "EXAMPLES", "ADDRESS", "--out", "FOLDER"),
        ("predict", "EXAMPLES", "FILES", "--pool", "FILES"),
        ("fit", "EXAMPLES", "--save", "FOLDER"),
        ("evaluate", "EXAMPLES", "--splits", "2"),
    ],
    ids=" ".join,
)
def test_a_command_loads_the_model_of_a_folder_once(
    command: tuple[str, ...],
    tables: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = save_model(Relational(PRESETS["tiny"], seed=1), tmp_path / "model")
    loaded: list[Path] = []
    load_file = checkpoint.load_file

    def counting(path: Path) -> dict[str, torch.Tensor]:
        loaded.append(path)
        return load_file(path)

    monkeypatch.setattr(checkpoint, "load_file", counting)
    names = {"EXAMPLES": tables[0], "FILES": tables[1], "ADDRESS": f"file://{tables[1]}"}
    arguments = [{**names, "FOLDER": tmp_path / "out"}.get(each, each) for each in command]
    result = _run(*arguments, "--model", model, "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert loaded == [model / checkpoint.WEIGHTS_FILE]
