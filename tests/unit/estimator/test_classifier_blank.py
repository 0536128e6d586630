"""Blank queries are answered, too; rows of infinite numbers are refused."""

import numpy as np
import pandas as pd
import pytest

from helpers.letters import Letters
from unitail.errors import BlankWarning, InvalidInput
from unitail.estimator.classifier import TailClassifier

GENERATOR = np.random.default_rng(0)
Y = np.arange(30) % 3
X = GENERATOR.normal(size=(30, 4)) + 3 * np.eye(4)[Y]


TEXTS, KINDS = ["aaa", "aab", "aba", "bbb", "bba"], ["A", "A", "A", "B", "B"]


@pytest.mark.parametrize("blank", ["", " \n", None, float("nan")])
@pytest.mark.parametrize("visibility", ["isolated", "joint"])
def test_one_empty_text_keeps_no_other_from_an_answer(blank: object, visibility: str) -> None:
    """It gets the class shares, no class is ruled out, and a warning names it."""
    classifier = TailClassifier(encoder=Letters(), visibility=visibility).fit(TEXTS, KINDS)
    asked = pd.Series(["abbb", blank, "baaa"], index=[7, 8, 9])
    with pytest.warns(BlankWarning, match=r"^1 of 3 items is blank \(first at index 1\)"):
        probabilities = classifier.predict_proba(asked)
    alone = classifier.predict_proba(["abbb", "baaa"])
    np.testing.assert_allclose(probabilities[[0, 2]], alone, rtol=1e-12)
    np.testing.assert_allclose(probabilities[1], [0.6, 0.4])
    with pytest.warns(BlankWarning):
        sets = classifier.predict_set(list(asked), coverage=0.5)
    assert sets[1].all()
    assert not sets[[0, 2]].all()
    with pytest.warns(BlankWarning):  # also if predictions are passed back
        again = classifier.predict_set(list(asked), 0.5, log_proba=np.log(probabilities))
    np.testing.assert_array_equal(again, sets)
    with pytest.warns(BlankWarning):
        assert classifier.novelty(asked.to_numpy())[1] == 1


def test_nothing_but_empty_texts_has_the_prior_that_was_asked_for() -> None:
    classifier = TailClassifier(encoder=Letters(), class_prior=[0.1, 0.9]).fit(TEXTS, KINDS)
    with pytest.warns(BlankWarning, match=r"^2 of 2 items are blank"):
        np.testing.assert_allclose(classifier.predict_proba(["", ""]), [[0.1, 0.9]] * 2)


def test_empty_texts_take_no_share_from_others() -> None:
    classifier = TailClassifier(
        encoder=Letters(), visibility="joint", class_shares="balanced", random_state=0
    ).fit(TEXTS, KINDS)
    with pytest.warns(BlankWarning):
        beside = classifier.predict_proba(["abbb", "", "", "", "baaa"])
    alone = classifier.predict_proba(["abbb", "baaa"])
    np.testing.assert_allclose(beside[[0, 4]], alone, rtol=1e-12)
    with pytest.warns(BlankWarning):
        np.testing.assert_allclose(classifier.predict_proba(["", ""]), [[0.6, 0.4]] * 2)


@pytest.mark.parametrize(("prior", "expected"), [(None, [5 / 6, 1 / 6]), ([0.3, 0.7], [0.3, 0.7])])
def test_shares_are_those_of_all_rows(prior: list[float] | None, expected: list[float]) -> None:
    """Not those of the centres that stand for them."""
    texts = ["a" * (1 + place % 9) + "b" * (place % 7) for place in range(60)]
    classifier = TailClassifier(
        encoder=Letters(), visibility="joint", max_support=12, class_prior=prior, random_state=0
    ).fit(texts, ["A"] * 50 + ["B"] * 10)
    assert len(classifier.fitted_.kept) < 60
    with pytest.warns(BlankWarning):
        np.testing.assert_allclose(classifier.predict_proba([""]), [expected])


def test_examples_say_something() -> None:
    with pytest.raises(InvalidInput, match=r"X has 1 missing item: got None at index 1"):
        TailClassifier(encoder=Letters()).fit(["a", None], KINDS[2:4])


def test_vectors_without_a_number_are_filled_in() -> None:
    """What is missing may itself tell of a class."""
    rows = np.array([[1.0], [2.0], [1.5], [np.nan], [np.nan], [np.nan]])
    classifier = TailClassifier().fit(rows, [0, 0, 0, 1, 1, 1])
    assert classifier.predict_proba([[np.nan]])[0, 1] > 0.6


@pytest.mark.parametrize("number", [2.0**1023, -(2.0**1023), 10**400])
def test_numbers_whose_sums_have_no_end_are_refused(number: float) -> None:
    """They once led to an error of a factorisation."""
    rows = np.full((4, 3), number, dtype=object)
    classifier = TailClassifier(random_state=0)
    with pytest.raises(InvalidInput, match=r"X holds a number that is too large: got .*1e\+300"):
        classifier.fit(rows, [0, 1, 0, 1])
    classifier.fit([[0.0, np.nan], [1.0, 2.0]], [0, 1])
    with pytest.raises(InvalidInput, match="X holds a number that is too large"):
        classifier.predict([[np.nan, float(2.0**1023)]])


def test_warnings_name_the_line_of_the_user_however_deep_the_call() -> None:
    classifier = TailClassifier(encoder=Letters()).fit(TEXTS, KINDS)
    for ask in (classifier.predict, classifier.predict_set, classifier.novelty):
        with pytest.warns(BlankWarning) as caught:
            ask(["", "abb"])
        assert [each.filename for each in caught] == [__file__]
