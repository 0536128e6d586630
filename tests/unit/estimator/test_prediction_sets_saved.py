import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from helpers.builders import small_model
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.fitted import Fitted
from unitail.estimator.prediction_sets import SavedScores, scores_key
from unitail.estimator.rows import Rows
from unitail.estimator.saving.folder import CLASSIFIER_FILE, ROWS_FILE
from unitail.nn.episode_model import Visibility

GENERATOR = np.random.default_rng(0)
Y = np.arange(24) % 3
X = GENERATOR.normal(size=(24, 4)) + Y[:, None]
Q = GENERATOR.normal(size=(9, 4)) + 1


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the folds that are left out, call by call."""
    counts: list[int] = []
    held_out = Fitted.held_out

    def counting(self: Fitted, every: list[np.ndarray]) -> object:
        counts.append(len(every))
        return held_out(self, every)

    monkeypatch.setattr(Fitted, "held_out", counting)
    return counts


@pytest.mark.parametrize("visibility", ["isolated", "joint"])
def test_a_loaded_classifier_leaves_nothing_out_again(
    visibility: str, asked: list[int], tmp_path: Path
) -> None:
    classifier = TailClassifier(visibility=visibility, random_state=0).fit(X, Y)
    folder = classifier.save(tmp_path / "saved")
    assert asked == [8]
    sets = classifier.predict_set(Q, 0.8)
    loaded = TailClassifier.load(folder)
    np.testing.assert_array_equal(loaded.predict_set(Q, 0.8), sets)
    again = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(again.predict_set(Q, 0.8), sets)
    assert asked == [8]


def test_a_pickle_carries_what_was_computed(asked: list[int]) -> None:
    classifier = TailClassifier(random_state=0).fit(X, Y)
    sets = classifier.predict_set(Q)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(classifier)).predict_set(Q), sets)
    assert len(asked) == 1


def test_it_may_be_left_for_later(asked: list[int], tmp_path: Path) -> None:
    classifier = TailClassifier(random_state=0).fit(X, Y)
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved", calibrate=False))
    assert asked == []
    np.testing.assert_array_equal(loaded.predict_set(Q), classifier.predict_set(Q))


def test_a_model_that_makes_no_sets_is_saved_without(tmp_path: Path) -> None:
    classifier = TailClassifier(small_model(visibility="joint"), random_state=0).fit(X, Y)
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved"))
    np.testing.assert_allclose(loaded.predict_proba(Q), classifier.predict_proba(Q))


def test_more_examples_are_calibrated_anew(asked: list[int], tmp_path: Path) -> None:
    loaded = TailClassifier.load(TailClassifier(random_state=0).fit(X, Y).save(tmp_path / "saved"))
    loaded.add(Q, [0] * 9).predict_set(Q)
    assert len(asked) == 2


def test_rows_that_were_exchanged_are_calibrated_anew(asked: list[int], tmp_path: Path) -> None:
    folder = TailClassifier(random_state=0).fit(X, Y).save(tmp_path / "saved")
    arrays = load_file(folder / ROWS_FILE)
    save_file({**arrays, "features": arrays["features"] + 1e-9}, folder / ROWS_FILE)
    TailClassifier.load(folder).predict_set(Q)
    assert len(asked) == 2


def test_parameters_that_were_exchanged_are_calibrated_anew(
    asked: list[int], tmp_path: Path
) -> None:
    folder = TailClassifier(random_state=0).fit(X, Y).save(tmp_path / "saved")
    table = json.loads((folder / CLASSIFIER_FILE).read_text())
    table["parameters"]["max_support"] = 12
    (folder / CLASSIFIER_FILE).write_text(json.dumps(table))
    TailClassifier.load(folder).predict_set(Q)
    assert len(asked) == 2


def test_the_key_is_that_of_rows_settings_and_weights() -> None:
    fitted = TailClassifier(random_state=0).fit(X, Y).fitted_
    rows, settings = fitted.rows, fitted.settings
    others = [
        (Rows(rows.features[::-1].copy(), rows.class_indices, 3), settings),
        (Rows(rows.features, rows.class_indices[::-1].copy(), 3), settings),
        (rows, replace(settings, seed=1)),
        (rows, replace(settings, num_draws=2)),
        (rows, replace(settings, model=small_model())),
        (rows, replace(settings, model=_other_weights())),
        (rows, replace(settings, max_support=7)),
    ]
    keys = [scores_key(*each) for each in [(rows, settings), *others]]
    assert len(set(keys)) == len(keys)
    faster = replace(settings, chunk_size=7, visibility=Visibility.JOINT)
    assert scores_key(rows, faster) == keys[0]
    calibration = SavedScores.of(np.arange(3.0), rows, settings)
    assert calibration.scores_for(rows, faster) is calibration.scores
    assert calibration.scores_for(*others[2]) is None


def _other_weights() -> torch.nn.Module:
    model = small_model()
    with torch.no_grad():
        next(model.parameters()).add_(1e-6)
    return model
