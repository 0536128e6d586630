import numpy as np
import pytest

from unitail.errors import InvalidConfig
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.prediction_sets import HeldOut
from unitail.estimator.suspicious_labels import suspicious_labels

GENERATOR = np.random.default_rng(0)
Y = np.arange(40) % 4
X = GENERATOR.normal(size=(40, 6)) + 9 * np.eye(6)[Y]
NAMES = np.array(["ant", "bee", "cat", "dog"])


def test_what_the_others_contradict_is_named_the_least_probable_first() -> None:
    held_out = HeldOut(
        np.array([4, 2, 0, 1]),
        np.array([[0.96, 0.04], [0.99, 0.01], [0.94, 0.06], [0.3, 0.7]]),
    )
    labels = np.array([1, 1, 1, 0, 1])
    flagged = suspicious_labels(held_out, labels, ["a", "b"])
    assert [(each.place, each.label, each.likely) for each in flagged] == [
        (2, "b", "a"),
        (4, "b", "a"),
    ]
    assert (flagged[0].label_probability, flagged[0].likely_probability) == (0.01, 0.99)
    for limit in (0.1, 1):  # what looks like its own label is never named
        assert len(suspicious_labels(held_out, labels, ["a", "b"], limit)) == 3


def test_wrong_labels_are_found_and_right_ones_left_alone() -> None:
    labels = NAMES[Y]
    labels[[3, 17]] = ["ant", "dog"]
    flagged = TailClassifier(random_state=0).fit(X, labels).flag_labels()
    assert {each.place: (each.label, each.likely) for each in flagged} == {
        3: ("ant", "dog"),
        17: ("dog", "bee"),
    }
    assert TailClassifier(random_state=0).fit(X, NAMES[Y]).flag_labels() == []


def test_every_row_of_a_reduced_support_is_asked() -> None:
    labels = Y.copy()
    labels[[3, 17]] = [0, 3]
    flagged = TailClassifier(random_state=0, max_support=20).fit(X, labels).flag_labels(0.5)
    assert {3, 17} <= {each.place for each in flagged}


@pytest.mark.parametrize("value", [0, 1.5, np.nan, "a", None])
def test_a_probability_out_of_range_is_refused(value: float) -> None:
    with pytest.raises(InvalidConfig, match=f"max_probability is out of range: got {value!r};"):
        TailClassifier(random_state=0).fit(X, Y).flag_labels(value)


def test_places_count_rows_of_weight_zero_as_remove_does() -> None:
    wrong = Y.copy()
    wrong[30] = (Y[30] + 1) % 4
    weights = np.ones(40)
    weights[[0, 7, 12]] = 0
    classifier = TailClassifier().fit(X, wrong, sample_weight=weights)
    [flagged] = classifier.flag_labels()
    assert (flagged.place, flagged.label, flagged.likely) == (30, wrong[30], Y[30])
    assert classifier.remove([flagged.place]).flag_labels() == []
