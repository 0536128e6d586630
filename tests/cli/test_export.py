from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.services import vector_classifier
from unitail.cli.main import app
from unitail.errors import InvalidConfig, UserError


def error_of(kind: type[UserError], *arguments: object) -> str:
    result = CliRunner().invoke(app, ["export", *map(str, arguments)])
    assert isinstance(result.exception, kind), result.output
    return str(result.exception)


def test_a_saved_classifier_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the file is tested beside the exporter."""
    exported = []
    monkeypatch.setattr(
        "unitail.cli.export.export_classifier",
        lambda classifier, file: exported.append((classifier.classes_.tolist(), file)),
    )
    folder = vector_classifier().save(tmp_path / "blobs")
    file = tmp_path / "blobs.onnx"
    result = CliRunner().invoke(app, ["export", str(folder), "--onnx", str(file)])
    assert result.exit_code == 0, result.output
    assert exported == [([0, 1, 2], file)]
    assert "vectors (rows, 6) to probabilities (rows, 3)" in " ".join(result.output.split())


def test_sizes_are_refused_for_a_classifier_which_has_its_own(tmp_path: Path) -> None:
    folder = vector_classifier().save(tmp_path / "blobs")
    given = ("--onnx", tmp_path / "a", "--support", 25, "--width", 6)
    sentence = error_of(InvalidConfig, folder, *given)
    assert "a classifier has its own sizes: got --support --width; allowed: these" in sentence


def test_fewer_examples_than_classes_are_refused(tmp_path: Path) -> None:
    sizes = ("--support", 3, "--classes", 5)
    sentence = error_of(InvalidConfig, "default", "--onnx", tmp_path / "a", *sizes)
    assert "there are fewer examples than classes: got --support 3 --classes 5" in sentence


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    assert error_of(UserError, tmp_path / "nothing", "--onnx", tmp_path / "a")


def test_a_place_that_cannot_be_written_to_is_reported_before_any_work(tmp_path: Path) -> None:
    file = tmp_path / "none" / "a.onnx"
    assert f"{file} cannot be written: got no folder" in error_of(UserError, "x", "--onnx", file)
