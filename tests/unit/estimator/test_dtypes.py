"""The dtype in which rows come changes nothing: neither in `fit`, nor in a question."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_iris

from unitail.estimator.classifier import TailClassifier

TYPES: dict[str, Callable[[NDArray[np.float64]], Any]] = {
    "float64": lambda rows: rows,
    "float32": lambda rows: rows.astype(np.float32),
    "float16": lambda rows: rows.astype(np.float16),
    "int": lambda rows: rows.astype(np.int64),
    "bool": lambda rows: rows.astype(np.bool_),
    "list": lambda rows: rows.tolist(),
    "DataFrame": pandas.DataFrame,
}
WAYS, WIDTH = 3, 12
TOLERANCE = 1e-9
"""All dtypes are taken into double precision before anything else is done with them."""

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")


def bits(rows: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return rows of zeros and ones, which all dtypes hold exactly."""
    generator = np.random.default_rng(seed)
    shares = np.random.default_rng(99).uniform(0.1, 0.9, size=(WAYS, WIDTH))
    labels = np.arange(rows) % WAYS
    return (generator.random((rows, WIDTH)) < shares[labels]).astype(np.float64), labels


def far_integers(rows: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return integers behind an offset, which all dtypes but the boolean hold exactly."""
    generator = np.random.default_rng(seed)
    means = np.random.default_rng(99).integers(0, 8, size=(WAYS, WIDTH))
    labels = np.arange(rows) % WAYS
    return 100.0 + means[labels] + generator.integers(0, 6, size=(rows, WIDTH)), labels


@pytest.mark.parametrize(("precision", "rows"), [("double", 24), ("single", 24), ("auto", 264)])
@pytest.mark.parametrize("visibility", ["isolated", "joint"])
@pytest.mark.parametrize("data", [bits, far_integers])
def test_every_pair_of_dtypes_gets_the_same_answers(
    data: Callable[..., Any], visibility: str, precision: str, rows: int
) -> None:
    (support, labels), (queries, _) = data(rows, seed=0), data(20, seed=1)
    types = [name for name in TYPES if name != "bool" or data is bits]
    for name in types:
        given = TYPES[name](support)
        assert np.array_equal(np.asarray(given, dtype=np.float64), support), "exact in all dtypes"
    expected = None
    for known in types:
        classifier = TailClassifier(visibility=visibility, precision=precision)
        classifier.fit(TYPES[known](support), labels)
        for asked in types:
            if data is far_integers and "float64" not in (known, asked):
                continue  # an offset is lost by what takes it or by what asks; bits try all pairs
            answers = classifier.predict_proba(TYPES[asked](queries))
            expected = answers if expected is None else expected
            np.testing.assert_allclose(
                answers, expected, rtol=0, atol=TOLERANCE, err_msg=f"{known}, then {asked}"
            )
    double = TailClassifier(visibility=visibility, precision="double").fit(support, labels)
    np.testing.assert_allclose(expected, double.predict_proba(queries), rtol=0, atol=1e-3)


@pytest.mark.parametrize("known", [np.float64, np.float32])
def test_decimals_of_a_table_are_rounded_to_no_other_side_of_a_step(known: type) -> None:
    """Flowers in tenths, which single precision does not hold, and many of which are equal."""
    features, labels = load_iris(return_X_y=True)
    classifier = TailClassifier().fit(features[::2].astype(known), labels[::2])
    assert classifier.fitted_.settings.scale.views
    double, single = (
        classifier.predict_proba(features.astype(asked)) for asked in (np.float64, np.float32)
    )
    np.testing.assert_allclose(double, single, rtol=0, atol=1e-4)


@pytest.mark.parametrize("known", TYPES)
def test_sets_novelty_and_added_rows_follow(known: str) -> None:
    (support, labels), (more, more_labels) = bits(24, seed=0), bits(9, seed=2)
    queries, _ = bits(20, seed=1)
    expected = TailClassifier(precision="single").fit(support, labels).add(more, more_labels)
    classifier = TailClassifier(precision="single").fit(TYPES[known](support), labels)
    classifier.add(more.astype(np.float32), more_labels)
    for asked in TYPES.values():
        rows = asked(queries)
        np.testing.assert_allclose(classifier.novelty(rows), expected.novelty(queries), atol=1e-9)
        assert (classifier.predict_set(rows) == expected.predict_set(queries)).all()


def test_a_support_is_reduced_alike() -> None:
    support, labels = far_integers(90, seed=0)
    queries, _ = far_integers(20, seed=1)
    answers = [
        TailClassifier(max_support=30, random_state=0)
        .fit(TYPES[known](support), labels)
        .predict_proba(queries.astype(np.float32))
        for known in TYPES
        if known != "bool"
    ]
    for other in answers[1:]:
        np.testing.assert_allclose(other, answers[0], rtol=0, atol=TOLERANCE)


@pytest.mark.usefixtures("real_weights")
@pytest.mark.parametrize("visibility", ["isolated", "joint"])
def test_the_shipped_model_reads_digits_in_every_pair_of_dtypes(visibility: str) -> None:
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    scores = [
        TailClassifier(visibility=visibility)
        .fit(features[:400].astype(known), labels[:400])
        .score(features[400:600].astype(asked), labels[400:600])
        for known in (np.float64, np.float32)
        for asked in (np.float64, np.float32)
    ]
    assert min(scores) == max(scores) > 0.85
