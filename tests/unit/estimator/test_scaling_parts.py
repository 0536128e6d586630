"""Parts of vectors are scaled each by itself, as if it were all there is."""

from pathlib import Path

import numpy as np
import pytest

from unitail import TailClassifier
from unitail.errors import InvalidConfig, WrongWidth
from unitail.estimator.rows import Rows
from unitail.estimator.scaling import PartsScaling, Scale, Scaling, from_plain, plain, read_scale

RNG = np.random.default_rng(0)
Y = np.arange(40) % 2
X = np.hstack([RNG.normal(size=(40, 3)) + Y[:, None], 100 * RNG.normal(size=(40, 2)) ** 2])
Q = X[::5] + 0.1
ROWS = Rows(X, Y, 2)


def test_each_part_is_scaled_as_if_it_were_alone() -> None:
    scaling = PartsScaling.of(ROWS, (Scale.NONE, Scale.TABLE), (3, 2))
    alone = Scaling.of(ROWS.with_features(X[:, 3:]), Scale.TABLE)
    assert scaling.choice == (Scale.NONE, Scale.TABLE)
    assert scaling.widths == (3, alone.width)
    np.testing.assert_array_equal(scaling(Q), np.hstack([Q[:, :3], alone(Q[:, 3:])]))
    np.testing.assert_array_equal(scaling.label_free(Q)[:, 3:], alone.label_free(Q[:, 3:]))
    some = ROWS.take(np.arange(7, 40))
    taught = alone.learned_by(some.with_features(some.features[:, 3:]))
    np.testing.assert_array_equal(scaling.learned_by(some)(Q)[:, 3:], taught(Q[:, 3:]))
    assert not np.array_equal(taught(Q[:, 3:]), alone(Q[:, 3:]))


def test_a_table_is_recognised_among_the_parts() -> None:
    scaling = PartsScaling.of(ROWS, (Scale.AUTO, Scale.AUTO), (3, 2))
    assert scaling.choice == (Scale.TABLE, Scale.TABLE)  # narrow, with twenty rows a class
    assert PartsScaling.of(ROWS.take(np.arange(2)), scaling.choice, (3, 2)).widths[0] >= 3


@pytest.mark.parametrize(
    ("given", "parts", "read"),
    [
        ("auto", None, Scale.AUTO),
        ("auto", (3, 2), (Scale.NONE, Scale.NONE)),
        ("table", (3, 2), (Scale.TABLE, Scale.TABLE)),
        (["none", "table"], (3, 2), (Scale.NONE, Scale.TABLE)),
        (np.array(["none", "table"]), (3, 2), (Scale.NONE, Scale.TABLE)),
    ],
)
def test_a_choice_is_for_all_or_for_each(given: object, parts: object, read: object) -> None:
    assert read_scale(given, parts) == read
    assert from_plain(plain(read)) == (read[0] if isinstance(given, str) and parts else read)


@pytest.mark.parametrize(
    ("given", "parts", "words"),
    [
        (["none", "table"], None, r"scale is unknown: got \['none', 'table'\]"),
        (["none"], [3, 2], r"scale .*got \['none'\]; allowed: one of auto.*or 2 of them, one for"),
        (["none", "odd"], [3, 2], "scale is unknown: got odd"),
        (5, [3, 2], "scale .*got 5; allowed"),
    ],
)
def test_what_is_wrong_is_reported(given: object, parts: list[int] | None, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        TailClassifier(scale=given, parts=parts).fit(X, Y)


def test_parts_are_as_wide_as_the_vectors() -> None:
    with pytest.raises(WrongWidth, match="got parts of 2, 2 columns, vectors of 5"):
        TailClassifier(parts=[2, 2], scale="table").fit(X, Y)


def test_it_is_kept_by_all_that_reads_the_rows_again(tmp_path: Path) -> None:
    """Saved, added to, reduced; an array of numbers beside vectors is a table if users say so."""
    scales = np.array(["none", "table"])
    classifier = TailClassifier(parts=[3, 2], scale=scales, random_state=0).fit(X, Y)
    assert classifier.scaled_
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved"))
    assert loaded.fitted_.saved_scores is not None
    np.testing.assert_array_equal(loaded.predict_proba(Q), classifier.predict_proba(Q))
    np.testing.assert_array_equal(loaded.novelty(Q), classifier.novelty(Q))
    grown = TailClassifier(parts=[3, 2], scale=["none", "table"], random_state=0)
    grown.fit(X[:30], Y[:30]).add(X[30:], Y[30:])
    np.testing.assert_allclose(grown.predict_proba(Q), classifier.predict_proba(Q), atol=1e-9)
    few = TailClassifier(parts=[3, 2], scale=["none", "table"], random_state=0, max_support=20)
    assert few.fit(X, Y).predict_set(Q).any(axis=1).all()
