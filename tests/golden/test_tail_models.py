"""Numbers of the shipped TAILs, pinned: a change of weights, draws or arithmetic shows here."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from unitail.estimator.classifier import TailClassifier

X, Y = load_digits(return_X_y=True)
SUPPORT, ASKED = slice(30), slice(100, 150)
PINNED: dict[tuple[str, str], tuple[list[float], float]] = {
    ("tail", "joint"): ([0.99953937, 0.9980989, 0.98498426, 0.88475805], 0.94),
    ("tail", "isolated"): ([0.99872191, 0.97575979, 0.99733469, 0.39977324], 0.88),
    ("tail-50w", "joint"): ([0.99925198, 0.96796477, 0.97767353, 0.70768426], 0.98),
    ("tail-50w", "isolated"): ([0.99595291, 0.88993296, 0.96839823, 0.44585128], 0.94),
}
"""The highest probability of the first four digits, and the accuracy on fifty."""


@pytest.mark.parametrize(("model", "visibility"), PINNED)
def test_answers(model: str, visibility: str) -> None:
    classifier = TailClassifier(
        model, visibility=visibility, n_draws=2, random_state=0, device="cpu"
    )
    classifier.fit(X[SUPPORT], Y[SUPPORT])
    highest, accuracy = PINNED[model, visibility]
    answers = classifier.predict_proba(X[ASKED])
    np.testing.assert_allclose(answers.max(axis=1)[:4], highest, atol=1e-6)
    assert classifier.score(X[ASKED], Y[ASKED]) == pytest.approx(accuracy)
