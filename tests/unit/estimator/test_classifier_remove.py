import numpy as np
import pytest

from helpers.blobs import blobs
from helpers.builders import small_model
from unitail import TailClassifier
from unitail.errors import InvalidEpisode
from unitail.nn.episode_model import AnyModel

X, Y, ASKED, _ = blobs()


def classifier(**settings: object) -> TailClassifier:
    named = {"device": "cpu", "scale": "none", "random_state": 0, **settings}
    return TailClassifier(**named)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["default", small_model()])
def test_what_is_left_is_a_fit_on_the_rest(model: str | AnyModel) -> None:
    places = [7, 0, 3, 7]
    left = np.delete(np.arange(len(Y)), places)
    removed = classifier(model=model).fit(X, Y).remove(places)
    fitted = classifier(model=model).fit(X[left], Y[left])
    assert np.array_equal(removed.predict_proba(ASKED), fitted.predict_proba(ASKED))
    assert np.array_equal(removed.predict_set(ASKED), fitted.predict_set(ASKED))
    assert np.array_equal(removed.novelty(ASKED), fitted.novelty(ASKED))
    assert removed.kept_examples().labels.tolist() == Y[left].tolist()


def test_it_undoes_add_and_a_class_without_rows_is_gone() -> None:
    one = classifier().fit(X, Y)
    before = one.predict_proba(ASKED)
    one.add(ASKED[:2], [8, 9]).remove([12])
    assert one.classes_.tolist() == [0, 1, 2, 9]
    assert np.array_equal(one.remove([12]).predict_proba(ASKED), before)
    assert np.array_equal(one.remove([]).predict_proba(ASKED), before)


def test_columns_stay_scaled_as_they_were() -> None:
    rows = X * np.array([1, 1e3, 1, 1, 1e-3, 1])
    one = classifier(scale="auto").fit(rows, Y)
    assert one.scaled_
    assert one.remove([0]).scaled_


@pytest.mark.parametrize("places", [[12], [-1], [0.5], [True], [[0]], 3, ["a"]])
def test_places_that_are_not_there_are_refused(places: object) -> None:
    one = classifier().fit(X, Y)
    with pytest.raises(InvalidEpisode, match=r"there are no such rows: got places .* 0 to 11"):
        one.remove(places)  # type: ignore[arg-type]


def test_two_classes_stay() -> None:
    one = classifier().fit(X, Y)
    with pytest.raises(InvalidEpisode, match="at least two classes: got 1 class \\(2\\)"):
        one.remove(np.flatnonzero(Y != 2))
    with pytest.raises(InvalidEpisode, match="at least two classes: got 0 classes;"):
        one.remove(np.arange(12))
    assert len(one.kept_examples().labels) == 12  # what failed changed nothing
