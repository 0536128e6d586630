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
    "isolated": ([0.99914243, 0.95966872, 0.98534052, 0.52819428], 0.808),
    "joint": ([0.99902061, 0.93486122, 0.97455155, 0.6067234], 0.924),
}
"""The highest probability of four digits, and the accuracy on 500."""


TOLERANCE = {"double": 1e-6, "single": 1e-4}
"""In single precision kernels round in their own way."""


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("visibility", PINNED)
def test_answers(visibility: str, precision: str) -> None:
    classifier = TailClassifier(visibility=visibility, precision=precision, device="cpu")
    classifier.fit(X[SUPPORT], Y[SUPPORT])
    highest, accuracy = PINNED[visibility]
    probabilities = classifier.predict_proba(X[ASKED])
    assert probabilities.argmax(axis=1).tolist() == [4, 0, 5, 3]
    np.testing.assert_allclose(probabilities.max(axis=1), highest, atol=TOLERANCE[precision])
    assert classifier.score(X[MANY], Y[MANY]) == pytest.approx(accuracy, abs=0.003)


@pytest.mark.parametrize("visibility", PINNED)
def test_single_precision_says_what_double_does(visibility: str) -> None:
    single, double = (
        TailClassifier(visibility=visibility, precision=precision, device="cpu")
        .fit(X[:400].astype(np.float32), Y[:400])
        .predict_proba(X[MANY])
        for precision in ("single", "double")
    )
    np.testing.assert_allclose(single, double, rtol=0, atol=2e-3)
    assert (single.argmax(axis=1) == double.argmax(axis=1)).mean() > 0.995
