"""Numbers of the shipped model, pinned: a change of weights or of arithmetic shows here.

They are written anew when the default model is: run the lines of `answers` and copy what comes.
"""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from unitail.estimator.classifier import TailClassifier

X, Y = load_digits(return_X_y=True)
SUPPORT, ASKED, MANY = slice(30), slice(100, 104), slice(100, 600)
PINNED = {
    "isolated": ([0.99880802, 0.98151141, 0.9835961, 0.59751855], 0.786),
    "joint": ([0.99926531, 0.98659124, 0.98481927, 0.63635694], 0.904),
}
"""The highest probability of four digits, and the accuracy on 500."""


@pytest.mark.parametrize("visibility", PINNED)
def test_answers(visibility: str) -> None:
    classifier = TailClassifier(visibility=visibility, precision="double", device="cpu")
    classifier.fit(X[SUPPORT], Y[SUPPORT])
    highest, accuracy = PINNED[visibility]
    found = classifier.predict_proba(X[ASKED])
    assert found.argmax(axis=1).tolist() == [4, 0, 5, 3]
    np.testing.assert_allclose(found.max(axis=1), highest, atol=1e-6)
    assert classifier.score(X[MANY], Y[MANY]) == pytest.approx(accuracy, abs=0.003)
