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
    "isolated": ([0.99978512, 0.98668281, 0.98932313, 0.45204675], 0.802),
    "joint": ([0.99957504, 0.96230871, 0.98127652, 0.57287455], 0.916),
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
