import json
import logging
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from helpers.blobs import blobs
from unitail import TailClassifier
from unitail.errors import CannotExport, InvalidConfig
from unitail.export import graphs as operators
from unitail.export.onnx import MIN_WIDTH, GraphSizes, _quiet, export_classifier, export_model
from unitail.relational import model as model_module
from unitail.relational import regressions
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational

X, Y, ASKED, _ = blobs(ways=3, shots=4, queries=5, width=6)
NAMES = np.array(["ant", "bee", "cat"])
TOLERANCE = 1e-5
"""In single precision."""


def model() -> Relational:
    """Return a model of few layers, made random, so that all of it counts."""
    network = Relational(replace(PRESETS["tiny"], layers=1, joint_layers=0))
    generator = np.random.default_rng(0)
    for parameter in network.parameters():
        noise = generator.normal(scale=0.1, size=tuple(parameter.shape))
        parameter.data += parameter.data.new_tensor(noise)
    return network


@pytest.mark.slow
def test_a_table_classifier_answers_in_onnx_as_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scaling, missing values and a prior are a part of the graph."""
    units = np.array([1, 1e3, 1, 1, 1e-3, 1])
    # Tenths, many of which are equal: single precision does not hold them.
    rows, asked = X.round() / 10 * units, ASKED.round() / 10 * units
    asked[5:] = rows[2:]
    rows[0, 1] = asked[0, 1] = asked[1, 2] = np.nan
    classifier = TailClassifier(model(), device="cpu", class_prior=[0.2, 0.3, 0.5])
    classifier.fit(rows, NAMES[Y])
    assert classifier.scaled_
    path = export_classifier(classifier, tmp_path / "classifier.onnx")
    session = onnxruntime.InferenceSession(path)
    expected = classifier.predict_proba(asked)
    assert expected.max(axis=1).min() < 0.9  # not all alike
    for count in (1, 2, 15):
        given = asked[:count].astype(np.float32)
        probabilities, indices = session.run(None, {"vectors": given})
        assert np.abs(probabilities - expected[:count]).max() < TOLERANCE
        assert indices.tolist() == expected[:count].argmax(axis=1).tolist()
    check_infinite_rows(session, given)
    many = np.resize(asked.astype(np.float32), (9000, 6))  # more than a chunk of any kind
    assert session.run(None, {"vectors": many})[0].shape == (9000, 3)
    facts = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert json.loads(facts["classes"]) == NAMES.tolist()
    threshold = json.loads(facts["set_thresholds"])["0.8"]
    sets = classifier.predict_set(asked, 0.8)
    best = np.eye(3, dtype=bool)[expected.argmax(axis=1)]
    assert np.array_equal(sets, (1 - expected <= threshold) | best)

    # A file that answers otherwise is not written: the other classifier has another prior.
    other = TailClassifier(model(), device="cpu", class_prior=[0.5, 0.3, 0.2]).fit(rows, NAMES[Y])
    wrong = SimpleNamespace(model_proto=onnx.load(path))
    monkeypatch.setattr("unitail.export.onnx._traced", lambda *_: wrong)
    with pytest.raises(CannotExport, match="does not give the answers of the model: got"):
        export_classifier(other, tmp_path / "other.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["classifier.onnx"]


def check_infinite_rows(session: onnxruntime.InferenceSession, rows: NDArray[np.float32]) -> None:
    """Each is told by its answer, and changes no other; Python refuses such rows."""
    good, good_indices = session.run(None, {"vectors": rows})
    for value in (np.inf, -np.inf):
        wrong = rows.copy()
        wrong[1, 2], wrong[3] = value, value
        probabilities, indices = session.run(None, {"vectors": wrong})
        assert np.isnan(probabilities[[1, 3]]).all()
        assert indices[[1, 3]].tolist() == [-1, -1]
        others = np.delete(np.arange(len(rows)), [1, 3])
        assert np.array_equal(probabilities[others], good[others])
        assert np.array_equal(indices[others], good_indices[others])


def test_a_classifier_of_vectors_tells_infinite_rows_in_onnx(tmp_path: Path) -> None:
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    classifier = TailClassifier(model(), device="cpu", scale="none").fit(rows, NAMES[Y])
    session = onnxruntime.InferenceSession(export_classifier(classifier, tmp_path / "a.onnx"))
    check_infinite_rows(session, rows.astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("many", [False, True])
def test_a_model_reads_examples_in_onnx_as_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, many: bool
) -> None:
    """Whether or not its classes are many."""
    monkeypatch.setattr(regressions, "LOGISTIC_STEPS", 2)  # each step is a part of the graph
    monkeypatch.setattr(operators, "STEPS", 16)  # enough for few rows
    if many:
        monkeypatch.setattr(regressions, "MANY_WAYS", 2)
        monkeypatch.setattr(regressions, "MANY_STATES", 1)
        monkeypatch.setattr(model_module, "LISTED", 1)
    network = model()
    path = export_model(
        network, GraphSizes(support=12, classes=3, width=6), tmp_path / "model.onnx"
    )
    loud = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    assert not loud  # exporters have much to say of their own work
    assert logging.getLogger("onnxscript").level == logging.NOTSET
    session = onnxruntime.InferenceSession(path)
    for seed, count in ((1, 1), (2, 7)):
        rows, labels, asked, _ = blobs(ways=3, shots=4, queries=5, width=6, seed=seed)
        given = {
            "support": rows.astype(np.float32),
            "class_indices": labels,
            "queries": asked[:count].astype(np.float32),
        }
        [probabilities] = session.run(None, given)
        classifier = TailClassifier(network, device="cpu", scale="none").fit(rows, labels)
        expected = classifier.predict_proba(asked[:count])
        assert np.abs(probabilities - expected).max() < TOLERANCE
    for value in (np.inf, -np.inf, np.nan):
        wrong = given["queries"].copy()
        wrong[1, 2] = value
        [answers] = session.run(None, {**given, "queries": wrong})
        assert np.isnan(answers[1]).all()
        assert np.array_equal(np.delete(answers, 1, axis=0), np.delete(probabilities, 1, axis=0))
        wrong = given["support"].copy()
        wrong[3, 0] = value
        assert np.isnan(session.run(None, {**given, "support": wrong})[0]).all()


def test_a_model_is_exported_for_any_width_from_the_smallest_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regressions, "LOGISTIC_STEPS", 2)
    monkeypatch.setattr(operators, "STEPS", 16)
    network = model()
    sizes = GraphSizes(support=12, classes=3, width=None)
    session = onnxruntime.InferenceSession(export_model(network, sizes, tmp_path / "model.onnx"))
    for width in (MIN_WIDTH, 70):
        rows, labels, asked, _ = blobs(ways=3, shots=4, queries=5, width=width)
        features = {"support": rows.astype(np.float32), "queries": asked.astype(np.float32)}
        [probabilities] = session.run(None, {**features, "class_indices": labels})
        classifier = TailClassifier(network, device="cpu", scale="none").fit(rows, labels)
        assert np.abs(probabilities - classifier.predict_proba(asked)).max() < TOLERANCE


def test_parts_are_refused(tmp_path: Path) -> None:
    classifier = TailClassifier(device="cpu", parts=[1, X.shape[1] - 1]).fit(X, Y)
    with pytest.raises(InvalidConfig, match=r"several parts cannot be exported.*unitail serve"):
        export_classifier(classifier, tmp_path / "parts.onnx")


def test_joint_answers_are_refused(tmp_path: Path) -> None:
    joint = Relational(PRESETS["tiny"])
    classifier = TailClassifier(joint, device="cpu", visibility="joint").fit(X, Y)
    with pytest.raises(InvalidConfig, match="joint answers cannot be exported"):
        export_classifier(classifier, tmp_path / "joint.onnx")
    assert not list(tmp_path.iterdir())


def test_what_looks_at_values_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = model()
    monkeypatch.setattr(network, "preconditioner", lambda chunks: float(chunks[0].sum()) and None)
    with pytest.raises(CannotExport, match="this model cannot be written as ONNX: got"):
        export_model(network, GraphSizes(support=6, classes=3, width=4), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_exporters_keep_what_they_say_of_their_own_work_to_themselves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with _quiet():
        for name in ("torch.onnx", "onnxscript.optimizer._constant_folding", "onnx_ir.passes"):
            logging.getLogger(name).warning("Skipping constant folding")
        warnings.warn("of torch, about itself", stacklevel=1)
    assert not caplog.records
    logging.getLogger("onnxscript.optimizer").warning("again")
    assert caplog.messages == ["again"]
