import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from unitail.errors import InvalidConfig, InvalidEpisode
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.saving.folder import CLASSIFIER_FILE


def test_partial_fits_are_one_fit() -> None:
    rng = np.random.default_rng(5)
    labels = np.array(["a", "b", "c"])[np.arange(12) % 3]
    rows = rng.normal(size=(12, 4)) + 3 * np.eye(4)[np.arange(12) % 3]
    classifier = TailClassifier(random_state=0, scale="none")
    for start in range(0, 12, 4):
        chosen = slice(start, start + 4)
        classifier.partial_fit(rows[chosen], labels[chosen], classes=["c", "b", "a"])
    whole = TailClassifier(random_state=0, scale="none").fit(rows, labels)
    np.testing.assert_allclose(
        classifier.predict_proba(rows), whole.predict_proba(rows), rtol=0, atol=1e-12
    )
    with pytest.raises(InvalidEpisode, match=r"first call did not name: got 'd'"):
        classifier.partial_fit(rows[:1], ["d"])
    with pytest.raises(InvalidConfig, match=r"classes.*got 'a', 'd'"):
        classifier.partial_fit(rows[:1], ["a"], classes=["a", "d"])
    classifier.fit(rows[:6], labels[:6]).partial_fit(rows[:1], ["d"])  # any, again
    assert classifier.classes_.tolist() == ["a", "b", "c", "d"]


def test_the_scale_is_the_one_that_all_rows_have() -> None:
    """Ten rows of a narrow array are too few to be a table, sixty are one."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    rows = rng.normal(size=(60, 5)) + labels[:, None] * [0.5, 0, 0, 0, 1]
    bit_by_bit = TailClassifier(random_state=0)
    bit_by_bit.partial_fit(rows[:10], labels[:10])
    assert not bit_by_bit.scaled_
    for start in range(10, 60, 10):
        bit_by_bit.partial_fit(rows[start : start + 10], labels[start : start + 10])
    whole = TailClassifier(random_state=0).fit(rows, labels)
    assert bit_by_bit.scaled_
    assert whole.scaled_
    np.testing.assert_allclose(
        bit_by_bit.predict_proba(rows), whole.predict_proba(rows), rtol=0, atol=1e-12
    )


def test_the_labels_that_may_come_are_saved(tmp_path: Path) -> None:
    rows, names = np.random.default_rng(0).normal(size=(6, 3)), ["c", "b", "a"]
    folder = tmp_path / "saved"
    first = TailClassifier(random_state=0).partial_fit(rows[:4], list("abab"), classes=names)
    loaded = TailClassifier.load(first.save(folder))
    with pytest.raises(InvalidEpisode, match=r"first call did not name: got 'd'; .*'a', 'b', 'c'"):
        loaded.partial_fit(rows[4:5], ["d"])
    with pytest.raises(InvalidConfig, match=r"got 'a', 'b'; allowed: just 'a', 'b', 'c'\. Leave"):
        loaded.partial_fit(rows[4:5], ["a"], classes=["a", "b"])
    loaded.partial_fit(rows[4:], ["c", "a"], classes=names)
    assert loaded.classes_.tolist() == ["a", "b", "c"]


def test_a_folder_without_expected_classes_may_be_given_them(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 3))
    folder = TailClassifier(random_state=0).fit(rows[:4], list("abab")).save(tmp_path / "saved")
    table = json.loads((folder / CLASSIFIER_FILE).read_text())
    assert table.pop("expected_classes") is None
    (folder / CLASSIFIER_FILE).write_text(json.dumps(table))
    loaded = TailClassifier.load(folder)
    with pytest.raises(InvalidConfig, match=r"got 'a', 'c'; allowed: at least 'a', 'b'\. Leave"):
        loaded.partial_fit(rows[4:], ["a"], classes=["a", "c"])
    loaded.partial_fit(rows[4:], ["a"], classes=["a", "b", "c"])
    with pytest.raises(InvalidEpisode, match="first call did not name: got 'd'"):
        loaded.partial_fit(rows[4:], ["d"])


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        (["a", None] * 2, ["a", "b"], r"rows without a label: got None in 2 rows \(1, 3\)"),
        (pd.array([1, pd.NA] * 2), [1, 2], r"rows without a label: got <NA> in 2 rows \(1, 3\)"),
        (["a", 1] * 2, ["a", "b"], "not of one kind that can be sorted: got numbers and strings"),
        (["a", "b"] * 2, ["a", None], r"without a label: got None in 1 row \(1\)"),
        (["a", "b"] * 2, ["a", 1], "not of one kind that can be sorted: got numbers and strings"),
    ],
)
def test_invalid_labels_are_refused_as_by_fit(labels: Any, classes: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidEpisode, match=message):
        TailClassifier().partial_fit(np.eye(4), labels, classes=classes)


def test_classes_may_be_of_pandas() -> None:
    classes = pd.array([1, 2, 3])
    classifier = TailClassifier().partial_fit(np.eye(4), pd.array([1, 2] * 2), classes=classes)
    assert classifier.classes_.dtype == np.int64
    with pytest.raises(InvalidEpisode, match="did not name: got 4; allowed: 1, 2, 3"):
        classifier.partial_fit(np.eye(4), [1, 2, 3, 4])
