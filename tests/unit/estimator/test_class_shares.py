from pathlib import Path

import numpy as np
import pytest

from helpers.blobs import blobs
from unitail.errors import InvalidConfig
from unitail.estimator.classifier import TailClassifier

X, Y, Q, _ = blobs()
SHARES = [0.2, 0.3, 0.5]


def test_answers_agree_with_known_shares() -> None:
    probabilities = (
        TailClassifier(visibility="joint", class_shares=SHARES).fit(X, Y).predict_proba(Q)
    )
    np.testing.assert_allclose(probabilities.mean(axis=0), SHARES, atol=1e-5)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    equal = TailClassifier(visibility="joint", class_shares="balanced").fit(X, Y).predict_proba(Q)
    np.testing.assert_allclose(equal.mean(axis=0), 1 / 3, atol=1e-5)


def test_sets_and_answers_without_shares_stay_as_they_are() -> None:
    classifier = TailClassifier(visibility="joint", class_shares=SHARES).fit(X, Y)
    plain = TailClassifier(visibility="joint").fit(X, Y)
    assert np.array_equal(classifier.predict_set(Q), plain.predict_set(Q))
    assert not np.allclose(classifier.predict_proba(Q), plain.predict_proba(Q))


def test_shares_are_saved(tmp_path: Path) -> None:
    classifier = TailClassifier(visibility="joint", class_shares=np.array(SHARES)).fit(X, Y)
    again = TailClassifier.load(classifier.save(tmp_path / "saved"))
    np.testing.assert_allclose(again.predict_proba(Q), classifier.predict_proba(Q))


@pytest.mark.parametrize(
    "wrong", ["equal", [0.5, 0.5], [0.2, 0.3, 0.4], [0.0, 0.5, 0.5], [np.nan, 0.5, 0.5], 3]
)
def test_shares_that_are_none_are_refused(wrong: object) -> None:
    classifier = TailClassifier(visibility="joint", class_shares=wrong)
    with pytest.raises(InvalidConfig, match=r"class_shares .* 3 numbers above 0 that add up to 1"):
        classifier.fit(X, Y)


def test_rows_that_are_answered_alone_have_no_shares() -> None:
    with pytest.raises(InvalidConfig, match=r"class_shares with visibility='isolated'"):
        TailClassifier(class_shares="balanced").fit(X, Y)
