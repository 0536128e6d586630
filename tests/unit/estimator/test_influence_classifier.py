import numpy as np
import pandas
import pytest
import torch
from numpy.typing import NDArray

from helpers.builders import small_model
from helpers.letters import Letters
from unitail.errors import BlankWarning, CannotSolve, InvalidConfig, InvalidInput
from unitail.estimator.classifier import TailClassifier
from unitail.inputs import mixed
from unitail.learners.large_hypothesis import LargeHypothesis
from unitail.tail.model import Tail

Y = np.arange(24) % 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 5)) + 2 * np.eye(5)[Y]
ASKED = RNG.normal(size=(4, 5)) + 2 * np.eye(5)[[0, 1, 2, 0]]
NAMES = np.array(["ant", "bee", "cat"])


def fitted(**parameters: object) -> TailClassifier:
    return TailClassifier(random_state=0, **parameters).fit(X, NAMES[Y])


@pytest.mark.parametrize("parameters", [{}, {"class_prior": [0.5, 0.3, 0.2]}])
def test_scores_are_those_of_the_probabilities(parameters: dict[str, object]) -> None:
    classifier = fitted(**parameters)
    log_proba = classifier.predict_log_proba(ASKED)
    influence = classifier.influence(ASKED)
    assert influence.values.shape == (4, 24)
    assert influence.labels.tolist() == classifier.predict(ASKED).tolist()
    expected = log_proba.max(axis=1) - log_proba.mean(axis=1)
    np.testing.assert_allclose(influence.score, expected, atol=1e-12)
    np.testing.assert_allclose(influence.values.sum(axis=1) + influence.base, expected)


def test_rows_of_the_class_speak_for_it_and_a_copy_most_of_all() -> None:
    rows = RNG.normal(size=(24, 60)) + 2 * np.eye(60)[Y]
    classifier = TailClassifier(random_state=0).fit(rows, NAMES[Y])
    influence = classifier.influence(rows[[5]] + 1e-6)
    assert influence.labels.tolist() == [NAMES[Y[5]]]
    assert influence.top(1).tolist() == [[5]]
    own = Y[5] == Y
    assert influence.values[0, own].mean() > 4 * abs(influence.values[0, ~own].mean())


def test_a_label_may_be_named() -> None:
    classifier = fitted()
    each = [classifier.influence(ASKED, label=name) for name in NAMES]
    log_proba = classifier.predict_log_proba(ASKED)
    for place, influence in enumerate(each):
        assert set(influence.labels) == {NAMES[place]}
        np.testing.assert_allclose(
            influence.score, log_proba[:, place] - log_proba.mean(axis=1), atol=1e-12
        )
    # Above the mean of all classes: over classes, what a row adds sums to nothing.
    np.testing.assert_allclose(sum(one.values for one in each), 0, atol=1e-10)
    with pytest.raises(InvalidInput, match=r"not one of the classes.*got 'dog'"):
        classifier.influence(ASKED, label="dog")
    for wrong, shape in (([["ant"]] * 4, r"\(4, 1\)"), (["ant"] * 3, r"\(3,\)")):
        with pytest.raises(InvalidInput, match=f"no label for each row: got labels of .*{shape}"):
            classifier.influence(ASKED, label=wrong)


def test_a_row_of_weight_two_has_the_influence_of_both() -> None:
    twice = TailClassifier(random_state=0).fit(np.r_[X, X[:1]], NAMES[np.r_[Y, Y[:1]]])
    weight = np.ones(24)
    weight[0] = 2
    weighted = TailClassifier(random_state=0).fit(X, NAMES[Y], sample_weight=weight)
    single, double = twice.influence(ASKED).values, weighted.influence(ASKED).values
    np.testing.assert_allclose(double[:, 0], single[:, 0] + single[:, 24], atol=1e-10)
    np.testing.assert_allclose(double[:, 1:], single[:, 1:24], atol=1e-10)


def test_rows_of_weight_zero_keep_their_place() -> None:
    weight = np.ones(24)
    weight[[0, 7, 8, 23]] = 0
    read = weight > 0
    plain = TailClassifier(random_state=0).fit(X[read], NAMES[Y[read]]).influence(ASKED)
    classifier = TailClassifier(random_state=0).fit(X, NAMES[Y], sample_weight=weight)
    influence = classifier.influence(ASKED)
    np.testing.assert_allclose(influence.values[:, read], plain.values, atol=1e-12)
    assert (influence.values[:, ~read] == 0).all()
    assert (influence.top() == np.flatnonzero(read)[plain.top()]).all()
    bit_by_bit = TailClassifier(random_state=0).partial_fit(X[:9], NAMES[Y[:9]], None, weight[:9])
    bit_by_bit.partial_fit(X[9:], NAMES[Y[9:]], sample_weight=weight[9:])
    assert (bit_by_bit.influence(ASKED).top() == influence.top()).all()
    first = influence.top(1)[0]
    fewer = classifier.remove(first)  # counted as the influence counts
    rest = np.delete(np.arange(24), first)
    expected = TailClassifier(random_state=0).fit(X[rest], NAMES[Y[rest]], weight[rest])
    again = fewer.influence(ASKED)
    np.testing.assert_allclose(again.values, expected.influence(ASKED).values, atol=1e-12)
    assert (again.values[:, weight[rest] == 0] == 0).all()
    assert classifier.fit(X, NAMES[Y]).influence(ASKED).values.shape == (4, 24)


def test_joint_classifiers_speak_of_isolated_answers() -> None:
    joint, isolated = fitted(visibility="joint"), fitted()
    np.testing.assert_allclose(joint.influence(ASKED).values, isolated.influence(ASKED).values)


def test_queries_do_not_matter_to_each_other() -> None:
    classifier = fitted(chunk_size=3)
    all_of_them = classifier.influence(ASKED).values
    alone = np.concatenate([classifier.influence(row[None]).values for row in ASKED])
    np.testing.assert_allclose(all_of_them, alone, atol=1e-12)


def test_models_that_cannot_say_are_named() -> None:
    model: Tail = small_model()
    classifier = TailClassifier(model, n_draws=1).fit(X, Y)
    with pytest.raises(CannotSolve, match=r"cannot attribute its answers.*got Tail"):
        classifier.influence(ASKED)


@pytest.mark.parametrize("weight", [None, np.arange(24) % 2 + 1])
def test_rows_that_were_averaged_share_in_what_their_centre_adds(
    weight: NDArray[np.int64] | None,
) -> None:
    rows = np.r_[X[:9], X[9:12].repeat(5, axis=0)]  # three rows are there five times
    labels = np.r_[Y[:9], Y[9:12].repeat(5)]
    classifier = TailClassifier(max_support=12, random_state=0)
    classifier.fit(rows, labels, pool=X[12:], sample_weight=weight)
    fitted = classifier.fitted_
    assert len(fitted.kept) == 12
    influence = classifier.influence(ASKED)
    places = influence.labels[None]
    asked = torch.from_numpy(fitted.scaling(ASKED))[None]
    added = fitted.hypothesis.contributions(asked, torch.from_numpy(places))
    np.testing.assert_allclose(influence.values.sum(axis=1), added[0].sum(dim=1), rtol=1e-5)
    copies = influence.values[:, 9:14] / (1 if weight is None else weight[9:14])
    np.testing.assert_allclose(copies, copies[:, :1].repeat(5, axis=1), rtol=1e-5)
    np.testing.assert_allclose(influence.values.sum(axis=1) + influence.base, influence.score)


def test_large_supports_say_what_pairs_of_rows_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows, and of many classes."""
    pairs, large = fitted().influence(ASKED), [fitted(max_support=9)]
    monkeypatch.setattr("unitail.relational.large.shortlist.MAX_UNLISTED_WAYS", 2)
    monkeypatch.setattr("unitail.estimator.fitted.MAX_PAIRED_WAYS", 2)
    for classifier in (*large, fitted()):
        assert isinstance(classifier.fitted_.hypothesis, LargeHypothesis)
        said = classifier.influence(ASKED)
        np.testing.assert_allclose(said.score, pairs.score, rtol=0, atol=1e-3)
        np.testing.assert_allclose(said.values, pairs.values, rtol=0, atol=0.06)
        assert np.corrcoef(said.values.ravel(), pairs.values.ravel())[0, 1] > 0.99


def test_the_column_that_tells_classes_apart_is_named() -> None:
    frame = pandas.DataFrame({"noise": RNG.normal(size=40), "kind": ["u", "v"] * 20})
    labels = ["no", "yes"] * 20
    classifier = TailClassifier(encoder="auto", random_state=0).fit(frame, labels)
    influence = classifier.column_influence(frame[:6])
    assert influence.names == ("noise", "kind")
    assert (influence.values[:, 1] > 5 * np.abs(influence.values[:, 0])).all()
    again = classifier.column_influence(frame[:6])
    np.testing.assert_array_equal(again.values, influence.values)


def test_columns_sum_and_bad_input_is_reported() -> None:
    classifier = fitted()
    influence = classifier.column_influence(ASKED, label="bee", n_walks=8)
    assert influence.values.shape == (4, 5)
    np.testing.assert_allclose(influence.base, influence.base[0])  # the mean of the rows drawn
    for walks in (0, 2.5, "3", True):
        message = f"n_walks is out of range: got {walks!r}; allowed: 1 or more"
        with pytest.raises(InvalidConfig, match=message):
            classifier.column_influence(ASKED, n_walks=walks)  # type: ignore[arg-type]
    texts = TailClassifier(encoder=Letters()).fit(["a cat", "dog", "my cat", "a dog"], [0, 1, 0, 1])
    with pytest.raises(CannotSolve, match="and vectors, have columns"):
        texts.column_influence(["the cat"])


def test_no_row_decides_what_is_said_of_an_empty_text() -> None:
    texts, kinds = ["aaa", "aab", "bbb", "bba", "bab"], ["A", "A", "B", "B", "B"]
    classifier = TailClassifier(encoder=Letters(), random_state=0).fit(texts, kinds)
    alone = classifier.influence(["aaab"])
    with pytest.warns(BlankWarning):
        influence = classifier.influence(["", "aaab"])
    with pytest.warns(BlankWarning):
        assert influence.labels.tolist() == classifier.predict(["", "aaab"]).tolist()
    assert influence.labels[0] == "B"
    np.testing.assert_allclose(influence.score[0], np.log(0.6) - np.log([0.6, 0.4]).mean())
    assert not influence.values[0].any()
    np.testing.assert_allclose(influence.values[1], alone.values[0], rtol=1e-9)
    with pytest.warns(BlankWarning):
        assert not classifier.influence([""], label="A").values.any()


def test_columns_lead_from_labelled_rows_to_what_is_said_of_empty_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mixed, "make_encoder", lambda *_, **__: Letters())
    known = {"one": ["aaa", "aab", "bbb", "bba", "bab"], "two": ["a", "aa", "b", "bb", "bbb"]}
    classifier = TailClassifier(encoder={"one": "text", "two": "text"}, random_state=0)
    classifier.fit(pandas.DataFrame(known), ["A", "A", "B", "B", "B"])
    asked = pandas.DataFrame({"one": ["", "abbb"], "two": ["", "bb"]})
    with pytest.warns(BlankWarning):
        influence = classifier.column_influence(asked, label="B", n_walks=10)
    np.testing.assert_allclose(influence.score[0], np.log(0.6) - np.log([0.6, 0.4]).mean())
    np.testing.assert_allclose(influence.base[0], influence.base[1])


@pytest.mark.parametrize("max_support", [4000, 12])
def test_influence_can_be_asked_after_answers(max_support: int) -> None:
    fresh, asked = fitted(max_support=max_support), fitted(max_support=max_support)
    asked.predict(ASKED)  # what it keeps for the next answers is no hindrance to slopes
    np.testing.assert_array_equal(asked.influence(ASKED).values, fresh.influence(ASKED).values)
