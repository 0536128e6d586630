import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from helpers.builders import small_model
from unitail.errors import CannotWrite, InvalidCheckpoint
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.saving.folder import (
    CARD_FILE,
    CLASSIFIER_FILE,
    ROWS_FILE,
    load_classifier,
)
from unitail.learners import pretrained
from unitail.learners.checkpoint import load_model, save_model
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational

GENERATOR = np.random.default_rng(0)
X, Q = GENERATOR.normal(size=(6, 3)), GENERATOR.normal(size=(4, 3))
Y = np.array([0, 1, 2, 0, 1, 2])

PARAMETERS_OF_FORMAT_2 = (
    "chunk_size",
    "class_shares",
    "device",
    "encoder",
    "max_support",
    "n_draws",
    "precision",
    "random_state",
    "visibility",
)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "ä", "ccc"]),
        np.array(["x", "y", "z"], dtype=object),
        np.array([3, 1, 2], dtype=np.int16),
        np.array([0.0, 1.0, 2.0], dtype=np.float32),
        np.array([True, False, True]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loaded_classifier_answers_as_the_saved_one(
    labels: NDArray[Any], dtype: type[np.floating], tmp_path: Path
) -> None:
    classifier = TailClassifier(random_state=1).fit(X.astype(dtype), labels[Y])
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved"))
    assert loaded.classes_.dtype == classifier.classes_.dtype
    np.testing.assert_array_equal(loaded.classes_, classifier.classes_)
    np.testing.assert_array_equal(loaded.predict_proba(Q), classifier.predict_proba(Q))
    np.testing.assert_array_equal(loaded.novelty(Q), classifier.novelty(Q))
    assert loaded.get_params() == classifier.get_params()
    names = {path.name for path in (tmp_path / "saved").iterdir()}
    assert names == {CARD_FILE, CLASSIFIER_FILE, ROWS_FILE}


def test_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("real")
    for labels in ([0, 1, 0, 1], ["a", "b", "a", "b"]):
        fitted = TailClassifier(random_state=0).fit(np.eye(4), labels)
        fitted.save(link, calibrate=False)
    assert link.is_symlink()
    assert TailClassifier.load(tmp_path / "real").classes_.tolist() == ["a", "b"]
    assert {path.name for path in tmp_path.iterdir()} == {"link", "real"}


def test_a_custom_model_is_saved_too(tmp_path: Path) -> None:
    classifier = TailClassifier(
        small_model().float(), n_draws=2, random_state=np.random.RandomState(3)
    ).fit(X, Y)
    folder = classifier.save(tmp_path / "saved")
    loaded = TailClassifier.load(str(folder))
    np.testing.assert_array_equal(loaded.predict_proba(Q), classifier.predict_proba(Q))
    assert loaded.random_state is None
    assert load_model(folder).config == small_model().config
    again = TailClassifier.load(loaded.save(folder))  # over the old one
    np.testing.assert_array_equal(again.predict_proba(Q), classifier.predict_proba(Q))


def test_half_precision_and_numpys_numbers_are_saved(tmp_path: Path) -> None:
    parameters = {"max_support": np.int64(100), "random_state": np.int64(3)}
    classifier = TailClassifier(small_model().bfloat16(), **parameters).fit(X, Y)
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved"))
    np.testing.assert_array_equal(loaded.predict_proba(Q), classifier.predict_proba(Q))
    assert (loaded.max_support, loaded.random_state) == (100, 3)


def test_a_loaded_classifier_takes_more_examples(tmp_path: Path) -> None:
    classifier = TailClassifier(small_model(), random_state=0).fit(X, Y)
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved"))
    np.testing.assert_allclose(
        loaded.add(Q, [3] * 4).predict_proba(X), classifier.add(Q, [3] * 4).predict_proba(X)
    )


def test_column_names_are_kept(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    loaded = TailClassifier.load(TailClassifier().fit(frame, Y).save(tmp_path / "saved"))
    assert list(loaded.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[["b", "a", "c"]])


def test_another_device_may_be_asked_for(tmp_path: Path) -> None:
    folder = TailClassifier().fit(X, Y).save(tmp_path / "saved")
    assert TailClassifier.load(folder, device="cpu").device == "cpu"


def test_labels_that_are_not_text_are_saved(tmp_path: Path) -> None:
    """As the names of folders may be."""
    names = ["\udcff", "\udcff", "b", "b"]
    classifier = TailClassifier(device="cpu").fit([[0.0], [0.1], [5.0], [5.1]], names)
    folder = classifier.save(tmp_path / "saved")
    assert list(TailClassifier.load(folder).classes_) == ["b", "\udcff"]
    assert "\\udcff" in (folder / "README.md").read_text(encoding="utf-8")


def test_labels_that_json_cannot_carry_are_refused(tmp_path: Path) -> None:
    days = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], dtype="datetime64[D]")
    classifier = TailClassifier().fit(X, days[Y])
    with pytest.raises(CannotWrite, match=r"got date .*; allowed: strings, integers"):
        classifier.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_other_folders_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(CannotWrite, match=r"something other than a classifier: got thesis\.tex"):
        TailClassifier().fit(X, Y).save(tmp_path)


def test_a_folder_without_a_classifier_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidCheckpoint, match=r"does not hold a classifier .*FileNotFoundError"):
        TailClassifier.load(tmp_path)


@pytest.mark.parametrize("name", [CLASSIFIER_FILE, ROWS_FILE, "model.safetensors"])
def test_a_damaged_folder_is_refused(name: str, tmp_path: Path) -> None:
    folder = TailClassifier(small_model(), random_state=0).fit(X, Y).save(tmp_path / "saved")
    path = folder / name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InvalidCheckpoint, match="can"):
        TailClassifier.load(folder)


def test_a_folder_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = TailClassifier().fit(X, Y).save(tmp_path / "saved")
    table = json.loads((folder / CLASSIFIER_FILE).read_text())
    (folder / CLASSIFIER_FILE).write_text(json.dumps({**table, "format": 6}))
    with pytest.raises(InvalidCheckpoint, match="another version of unitail: got format 6"):
        TailClassifier.load(folder)


@pytest.mark.usefixtures("real_weights")
def test_a_shipped_tail_is_referred_to_by_hash(tmp_path: Path) -> None:
    fitted = TailClassifier("tail", n_draws=1, random_state=0, device="cpu").fit(X, Y)
    folder = fitted.save(tmp_path / "saved")
    assert not (folder / "model.safetensors").exists()
    loaded = TailClassifier.load(folder)
    assert (loaded.model, loaded.visibility_) == ("tail", "joint")
    np.testing.assert_array_equal(loaded.predict_proba(Q), fitted.predict_proba(Q))


def test_a_folder_of_the_format_before_is_read(tmp_path: Path) -> None:
    classifier = TailClassifier(random_state=0).fit(X, Y)
    folder = classifier.save(tmp_path / "saved", calibrate=False)
    table = json.loads((folder / CLASSIFIER_FILE).read_text())
    later = ("calibration", "made_with")
    old = {name: value for name, value in table.items() if name not in later}
    old["parameters"] = {name: table["parameters"][name] for name in PARAMETERS_OF_FORMAT_2}
    (folder / CLASSIFIER_FILE).write_text(json.dumps({**old, "format": 2}))
    (folder / CARD_FILE).unlink()
    loaded = TailClassifier.load(folder)
    np.testing.assert_array_equal(loaded.predict_proba(Q), classifier.predict_proba(Q))
    np.testing.assert_array_equal(loaded.predict_set(Q), classifier.predict_set(Q))


def test_another_shipped_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = TailClassifier().fit(X, Y).save(tmp_path / "saved")
    other = save_model(Relational(PRESETS["tiny"], seed=9), tmp_path / "default")
    pretrained.write_manifest(other)
    monkeypatch.setattr(pretrained, "FOLDER", other)
    with pytest.raises(InvalidCheckpoint, match="was fitted with another shipped model"):
        TailClassifier.load(folder)


def _forge(folder: Path, **changes: object) -> Path:
    """Save a classifier and change values of its table; a function is applied to the old value."""
    TailClassifier(random_state=0).fit(X, Y).save(folder)
    table = json.loads((folder / CLASSIFIER_FILE).read_text())
    for name, change in changes.items():
        table[name] = change(table[name]) if callable(change) else change
    (folder / CLASSIFIER_FILE).write_text(json.dumps(table))
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale": "nan"}, "does not hold a classifier that can be loaded: got ValueError"),
        ({"seed": float("inf")}, "got OverflowError"),
        ({"parameters": []}, "got AttributeError"),
        ({"parameters": lambda known: {**known, "model": "x"}}, "unknown parameters: got model"),
        (
            {"classes": {"dtype": "<U500000000", "values": ["a", "b", "c"]}},
            "got ValueError: labels",
        ),
        ({"classes": {"dtype": "<U1", "values": ["a", "b"]}}, "classes that do not fit the rest"),
        ({"classes": {"dtype": "<U1", "values": ["a", "a", "b"]}}, "are not different labels"),
        ({"feature_names": 3}, "can be loaded: got"),
        ({"feature_names": "abc"}, "names of columns that are not texts"),
        ({"feature_names": ["a"]}, "1 names of columns for 3 columns"),
    ],
)
def test_a_forged_classifier_is_refused_in_one_sentence(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidCheckpoint, match=message):
        TailClassifier.load(_forge(tmp_path / "saved", **changes)).predict(Q)


def test_a_classifier_does_not_choose_where_its_user_keeps_vectors(tmp_path: Path) -> None:
    folder = _forge(tmp_path / "saved", parameters=lambda known: {**known, "cache": "elsewhere"})
    assert TailClassifier.load(folder).cache == "auto"


@pytest.mark.parametrize(
    "arrays",
    [
        {"features": np.zeros(6), "class_indices": Y},
        {"features": X, "class_indices": Y[:-1]},
        {"features": X, "class_indices": Y + 1},
        {"features": X, "class_indices": Y, "pool": np.zeros((4, 2))},
        {"features": X, "class_indices": Y, "counts": np.zeros(6, int)},
        {"features": np.full((6, 3), np.inf), "class_indices": Y},
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(
    tmp_path: Path, arrays: dict[str, NDArray[Any]]
) -> None:
    folder = _forge(tmp_path / "saved")
    save_file(arrays, folder / ROWS_FILE)
    with pytest.raises(InvalidCheckpoint, match="that do not fit the rest"):
        TailClassifier.load(folder)


HUGE = np.full(6, 10**12)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"counts": HUGE}, "stand for 6,000,000,000,000 rows, more than 1,000,000;"),
        ({"counts": np.full(6, 2**62)}, "rows, more than 1,000,000;"),
        ({"counts": HUGE // 10**6, "weights": np.ones(6)}, "6,000,000 rows, more than 10,000;"),
        ({"counts": np.full(6, 2.5)}, "counts of type float64, not int64;"),
    ],
)
def test_counts_that_would_take_all_memory_are_refused(
    tmp_path: Path, arrays: dict[str, NDArray[Any]], message: str
) -> None:
    folder = _forge(tmp_path / "saved")
    save_file({"features": X, "class_indices": Y, **arrays}, folder / ROWS_FILE)
    with pytest.raises(InvalidCheckpoint, match=f"can be loaded: got ValueError: .*{message}"):
        TailClassifier.load(folder)


def test_counts_of_older_folders_are_read(tmp_path: Path) -> None:
    folder, older = _forge(tmp_path / "saved", calibration=None, format=4), np.full(6, 2000)
    save_file({"features": X, "class_indices": Y, "counts": older}, folder / ROWS_FILE)
    assert load_classifier(folder).rows.total == 12_000
    both = {"counts": np.arange(1, 7), "weights": np.arange(6.0) + 1.05}
    save_file({"features": X, "class_indices": Y, **both}, folder / ROWS_FILE)
    assert load_classifier(folder).rows.counts.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("weights", [[0, 1, 2, 3, 0, 1.5], [2.5] * 6, [1, 1e6, 1, 1, 1, 1]])
@pytest.mark.filterwarnings("ignore:sample_weight amounts to")
def test_counts_are_made_of_saved_weights_again(weights: list[float], tmp_path: Path) -> None:
    labels = np.array([0, 1, 0, 1, 1, 0])
    classifier = TailClassifier(random_state=0).fit(X, labels, weights)
    folder = classifier.save(tmp_path / "saved")
    assert "counts" not in load_file(folder / ROWS_FILE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # `fit` has said what it rounds
        loaded = TailClassifier.load(folder)
    np.testing.assert_array_equal(loaded.fitted_.rows.counts, classifier.fitted_.rows.counts)
    np.testing.assert_array_equal(loaded.predict_proba(Q), classifier.predict_proba(Q))
    assert "held_out_scores" not in vars(loaded.fitted_)  # they were saved, and are valid
    assert loaded.fitted_.saved_scores is not None


def test_rows_of_weight_zero_keep_their_places_in_a_folder(tmp_path: Path) -> None:
    weights = np.array([0, 1, 1, 0, 1, 1, 1, 0])
    rows, labels = np.concatenate([X, Q[:2]]), np.array([0, 1, 0, 1, 1, 0, 0, 1])
    classifier = TailClassifier(random_state=0, scale="none").fit(rows, labels, weights)
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved"))
    assert loaded.kept_examples().places.tolist() == [1, 2, 4, 5, 6]
    np.testing.assert_array_equal(loaded.influence(Q).values, classifier.influence(Q).values)
    loaded.add(X[:2], [1, 1], [0, 1]).remove([0, 2, 8])
    assert loaded.kept_examples().places.tolist() == [0, 2, 3, 4, 6]
    assert loaded.fitted_.rows.num_given == 7


@pytest.mark.parametrize("places", [[3, 1], [1, 1], [-1], [7], [[1]], [1.0]])
def test_places_of_weight_zero_that_cannot_be_are_refused(
    places: list[Any], tmp_path: Path
) -> None:
    folder = _forge(tmp_path / "saved")
    arrays = {"features": X, "class_indices": Y, "weightless": np.array(places)}
    save_file(arrays, folder / ROWS_FILE)
    with pytest.raises(InvalidCheckpoint, match="weightless that do not fit the rest"):
        TailClassifier.load(folder)
