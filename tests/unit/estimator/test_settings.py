import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.blobs import blobs
from helpers.builders import small_model
from unitail.errors import InvalidCheckpoint, InvalidConfig
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.settings import MAX_DOUBLE, Precision, Settings
from unitail.learners import pretrained
from unitail.learners.checkpoint import save_model
from unitail.nn.episode_model import AnyModel, Visibility
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational

X, Y, Q, _ = blobs()


def test_precision_follows_the_support() -> None:
    assert Precision.AUTO.dtype(MAX_DOUBLE) == torch.float64
    assert Precision.AUTO.dtype(MAX_DOUBLE + 1) == torch.float32
    assert Precision.DOUBLE.dtype(10**6) == torch.float64
    assert Precision.SINGLE.dtype(1) == torch.float32


def test_a_device_without_double_precision_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unitail.estimator.settings.choose_device", torch.device)
    message = "in single precision only: got 'mps'; .* or another device with double precision"
    with pytest.raises(InvalidConfig, match=message):
        TailClassifier(device="mps").fit(X, Y)


def test_the_shipped_model_is_shared() -> None:
    settings = Settings.of(TailClassifier(device="cpu"), seed=0)
    assert (settings.model, settings.num_draws) == (pretrained.DEFAULT, 1)
    assert settings.learner(MAX_DOUBLE + 1).model is pretrained.load_default()


class Counted(Relational):
    """Counts how often it is copied."""

    copies = 0

    def __deepcopy__(self, memo: object) -> Relational:
        Counted.copies += 1
        copied = Counted(self.config)
        copied.load_state_dict(self.state_dict())
        return copied


@pytest.mark.parametrize(("precision", "copies"), [("single", 1), ("auto", 2)])
def test_a_custom_model_is_copied_once_and_once_for_another_dtype(
    precision: str, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counted, "copies", 0)
    model = Counted(PRESETS["tiny"])
    classifier = TailClassifier(model, device="cpu", precision=precision, max_support=9).fit(X, Y)
    classifier.predict_set(Q)
    classifier.flag_labels()
    pickle.loads(pickle.dumps(classifier)).predict(Q)
    assert Counted.copies == copies * 2 - 1  # a pickle has a frozen model, too: to convert only


def test_training_a_model_after_a_fit_changes_no_answer(tmp_path: Path) -> None:
    model = relational()
    classifier = TailClassifier(model, device="cpu", random_state=0).fit(X, Y)
    before = classifier.predict_proba(Q)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_()
    model.train()
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved"))
    for each in (classifier, pickle.loads(pickle.dumps(classifier)), loaded):
        np.testing.assert_array_equal(each.predict_proba(Q), before)
    flagged = classifier.flag_labels(1.0)
    assert flagged == loaded.flag_labels(1.0)
    after = classifier.add(X[:1], Y[:1]).predict_proba(Q)  # which fits anew, with what is given now
    assert not np.allclose(after, before, atol=1e-3)


@pytest.mark.usefixtures("real_weights")
@pytest.mark.parametrize("name", ["tail", "tail-50w"])
def test_a_shipped_tail_is_asked_as_its_card_says(name: str) -> None:
    settings = Settings.of(TailClassifier(name, device="cpu"), seed=0)
    assert (settings.visibility, settings.num_draws) == (Visibility.JOINT, 8)
    assert settings.learner(MAX_DOUBLE + 1).model is pretrained.load_shipped(name)
    chosen = Settings.of(TailClassifier(name, visibility="isolated", n_draws=2), seed=0)
    assert (chosen.visibility, chosen.num_draws) == (Visibility.ISOLATED, 2)


def test_a_custom_model_is_asked_with_one_draw() -> None:
    assert Settings.of(TailClassifier(small_model()), seed=0).num_draws == 1


def test_other_models_are_copied() -> None:
    model = small_model()
    ready = Settings.of(TailClassifier(model, device="cpu", precision="single"), 0).learner(5).model
    assert ready is not model
    assert next(ready.parameters()).dtype == torch.float32
    assert not ready.training
    assert next(model.parameters()).dtype == torch.float64


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidCheckpoint, match="is not a model folder"):
        Settings.of(TailClassifier(tmp_path), seed=0)


def test_parameters_are_taken_over() -> None:
    classifier = TailClassifier(
        visibility="joint", n_draws=2, device="cpu", max_support=None, precision="single"
    )
    settings = Settings.of(classifier, seed=7)
    assert (settings.visibility, settings.num_draws, settings.seed) == (Visibility.JOINT, 2, 7)
    assert (settings.max_support, settings.chunk_size) == (None, None)
    assert (settings.device.type, settings.precision) == ("cpu", Precision.SINGLE)


def test_what_is_said_of_classes_is_read_once() -> None:
    classes = ["ant", "bee", "cat"]

    def read(**parameters: object) -> Settings:
        return Settings.of(TailClassifier(device="cpu", **parameters), 0, classes)

    balanced = read(class_weight="balanced")
    np.testing.assert_array_equal(balanced.class_prior, np.full(3, 1 / 3))
    assert balanced.class_weight is None
    np.testing.assert_array_equal(read(class_weight={"bee": 2}).class_weight, [1, 2, 1])
    np.testing.assert_array_equal(read(class_prior=[0.2, 0.3, 0.5]).class_prior, [0.2, 0.3, 0.5])
    shares = read(visibility="joint", class_shares="balanced").class_shares
    np.testing.assert_array_equal(shares, np.full(3, 1 / 3))
    assert Settings.of(TailClassifier(class_prior="balanced"), 0).class_prior is None


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("visibility", "none", "visibility is unknown: got none; allowed: auto, isolated, joint"),
        ("n_draws", 0, "n_draws is out of range: got 0; allowed: 1 or more"),
        ("chunk_size", 0, "chunk_size is out of range: got 0; allowed: 1 or more, or None"),
        ("max_support", True, "max_support is out of range: got True; allowed: 1 or more"),
        ("max_support", 2.5, "max_support is out of range: got 2.5; allowed: 1 or more, or None"),
        ("precision", "half", "precision is unknown: got half; allowed: auto, single, double"),
        ("precision", np.array([1, 2]), r"precision is unknown: got \[1 2\]; allowed: auto,"),
        ("visibility", np.array([1, 2]), r"visibility is unknown: got \[1 2\]; allowed: auto,"),
        ("device", "nowhere", "device is unknown: got 'nowhere'; allowed: auto, cpu"),
        ("device", 1.5, "device is unknown: got 1.5"),
        (
            "model",
            3,
            "model is unknown: got int; allowed: 'default', 'tail', 'tail-50w', the folder",
        ),
    ],
)
def test_options_are_checked_in_fit(option: str, value: object, message: str) -> None:
    classifier = TailClassifier(**{option: value})
    with pytest.raises(InvalidConfig, match=message):
        classifier.fit([[0.0], [1.0]], [0, 1])


# Who sees whom


def relational(**changes: object) -> AnyModel:
    return Relational(replace(PRESETS["tiny"], **changes))  # type: ignore[arg-type]


MODELS = {
    "tail isolated": (small_model().float(), ["isolated"]),
    "tail joint": (small_model(visibility=Visibility.JOINT).float(), ["joint"]),
    "tail causal": (small_model(visibility=Visibility.CAUSAL).float(), ["causal"]),
    "relational": (relational(), ["isolated", "joint"]),
    "relational joint": (relational(visibility=Visibility.JOINT), ["joint", "isolated"]),
    "relational, no joint layers": (relational(joint_layers=0), ["isolated"]),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_asked_as_it_was_trained(name: str, tmp_path: Path) -> None:
    model, known = MODELS[name]
    folder = save_model(model, tmp_path / "model")
    for given in (model, folder, str(folder)):
        classifier = TailClassifier(given, random_state=0).fit(X, Y)
        assert (classifier.visibility, classifier.visibility_) == ("auto", known[0])
    own = TailClassifier(model, random_state=0, visibility=known[0]).fit(X, Y)
    np.testing.assert_array_equal(classifier.predict_proba(Q), own.predict_proba(Q))
    together = np.allclose(classifier.predict_proba(Q[:1]), classifier.predict_proba(Q)[:1])
    assert together == (known[0] != "joint")  # the first row of a causal call sees none, either


@pytest.mark.parametrize("visibility", Visibility)
@pytest.mark.parametrize("name", MODELS)
def test_another_visibility_is_refused_by_name(name: str, visibility: str) -> None:
    model, known = MODELS[name]
    classifier = TailClassifier(model, visibility=str(visibility))
    if visibility in known:
        assert classifier.fit(X, Y).visibility_ == visibility
    else:
        message = f"not trained for this visibility: got {visibility}; allowed: auto, {known[0]}"
        with pytest.raises(InvalidConfig, match=message):
            classifier.fit(X, Y)


def test_a_model_that_never_isolated_queries_gives_no_sets() -> None:
    classifier = TailClassifier(MODELS["tail joint"][0], random_state=0).fit(X, Y)
    with pytest.raises(InvalidConfig, match="trained for joint answers alone"):
        classifier.predict_set(Q)


def test_a_loaded_classifier_keeps_the_visibility_of_its_model(tmp_path: Path) -> None:
    classifier = TailClassifier(MODELS["tail joint"][0], random_state=0).fit(X, Y)
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved"))
    assert (loaded.visibility, loaded.visibility_) == ("auto", "joint")
    np.testing.assert_array_equal(loaded.predict_proba(Q), classifier.predict_proba(Q))
