import pytest

from unitail.errors import InvalidConfig
from unitail.estimator.choices import Precision
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.options import make_reading
from unitail.nn.visibility import Visibility


def test_options_are_taken_over() -> None:
    classifier = TailClassifier(
        visibility="joint", n_draws=2, device="cpu", max_support=None, precision="single"
    )
    reading = make_reading(classifier, seed=7)
    assert (reading.visibility, reading.num_draws, reading.seed) == (Visibility.JOINT, 2, 7)
    assert (reading.model, reading.max_support, reading.chunk_size) == (None, None, None)
    assert (reading.device.type, reading.precision) == ("cpu", Precision.SINGLE)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("visibility", "none", "visibility is unknown: got none; allowed: isolated, joint, causal"),
        ("n_draws", 0, "n_draws is out of range: got 0; allowed: 1 or more"),
        ("n_draws", None, "n_draws is out of range: got None"),
        ("chunk_size", 0, "chunk_size is out of range: got 0; allowed: 1 or more, or None"),
        ("max_support", 2.5, "max_support is out of range: got 2.5; allowed: 1 or more, or None"),
        ("precision", "half", "precision is unknown: got half; allowed: auto, single, double"),
        ("device", "nowhere", "device is unknown: got 'nowhere'; allowed: auto, cpu"),
        ("device", 1.5, "device is unknown: got 1.5"),
        ("model", 3, "model is unknown: got int; allowed: 'default', the folder of a model"),
    ],
)
def test_options_are_checked_in_fit(option: str, value: object, message: str) -> None:
    classifier = TailClassifier(**{option: value})
    with pytest.raises(InvalidConfig, match=message):
        classifier.fit([[0.0], [1.0]], [0, 1])
