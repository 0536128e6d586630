from dataclasses import replace

import numpy as np
import pytest

from helpers.studios import COLOURS, open_studio, write_pictures
from unitail.studio.estimate import MIN_COUNTED, Estimated, estimate
from unitail.studio.state import Labelled
from unitail.studio.stored_rows import Origin
from unitail.studio.studio import Studio

NOTHING = np.zeros(0)


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Studio:
    """60 pictures of three colours, in turn, encoded and not labelled."""
    folder = tmp_path_factory.mktemp("pictures")
    write_pictures(folder, 60)
    studio = open_studio(folder)
    studio.vectors.encode_all()
    return studio


def labelled(groups: dict[Origin, tuple[range, int]]) -> Labelled:
    """Label ranges of places by their colour, or `shift` colours further on: wrongly."""
    rows = [
        (place, 1 + (place + shift) % len(COLOURS), str(origin))
        for origin, (places, shift) in groups.items()
        for place in places
    ]
    places, class_ids, origins = zip(*sorted(rows), strict=True)
    return Labelled(1, places, class_ids, frozenset(), origins, (1,) * len(places))


def estimated(studio: Studio, named: Labelled, open_answers: np.ndarray = NOTHING) -> Estimated:
    result = estimate(studio.vectors, named, open_answers, device="cpu", is_over=lambda: False)
    assert result is not None
    return result


def test_labels_confirmed_many_at_once_are_left_out(studio: Studio) -> None:
    own = {Origin.CHOSEN: (range(24), 0)}
    alone = estimated(studio, labelled(own))
    beside = estimated(studio, labelled({**own, Origin.CONFIRMED: (range(24, 60), 1)}))
    assert (beside.labels, beside.confirmed) == (24, 36)
    assert "24 labels (without the 36 confirmed at once)" in beside.sentence
    assert replace(beside, confirmed=0) == alone
    assert alone.now.mean > 0.9


def test_accuracy_is_not_measured_on_suggested_items(studio: Studio) -> None:
    groups = {Origin.CHOSEN: (range(30), 0), Origin.SUGGESTED: (range(30, 36), 1)}
    named = labelled(groups)
    among_chosen = estimated(studio, named)
    among_all = estimated(studio, replace(named, origins=("chosen",) * 36))
    assert among_chosen.labels == among_all.labels == 36
    assert among_chosen.now.mean > among_all.now.mean + 0.05


def test_suggested_items_are_learned_from(studio: Studio) -> None:
    """Their labels are wrong here, so whoever learns from them errs."""
    right = {Origin.CHOSEN: (range(12), 0)}
    alone = estimated(studio, labelled(right))
    beside = estimated(studio, labelled({**right, Origin.SUGGESTED: (range(12, 60), 1)}))
    assert beside.now.mean < alone.now.mean - 0.3


@pytest.mark.parametrize("chosen", [0, MIN_COUNTED - 1])
def test_suggested_items_count_where_few_were_chosen(studio: Studio, chosen: int) -> None:
    groups = {Origin.CHOSEN: (range(chosen), 0), Origin.SUGGESTED: (range(chosen, 36), 0)}
    named = labelled(groups)
    assert estimated(studio, named) == estimated(studio, replace(named, origins=("chosen",) * 36))


def test_too_few_labels_have_no_estimate(studio: Studio) -> None:
    for groups in ({Origin.CHOSEN: (range(3), 0)}, {Origin.CONFIRMED: (range(30), 0)}):
        named = labelled(groups)
        given = studio.vectors, named, NOTHING
        assert estimate(*given, device="cpu", is_over=lambda: False) is None


def test_the_curve_has_one_point_for_each_number_of_labels(studio: Studio) -> None:
    result = estimated(studio, labelled({Origin.CHOSEN: (range(30), 0)}))
    shots = [each for each, _ in result.curve]
    assert shots == sorted(set(shots))
    assert len(shots) > 2
    assert np.isclose(shots[-1], 27 / 3)


def test_labels_that_were_checked_are_not_doubted_again(studio: Studio) -> None:
    """The label at place 0 is wrong, and a user who was told so insists on it."""
    right = labelled({Origin.CHOSEN: (range(30), 0)})
    named = replace(right, class_ids=(2, *right.class_ids[1:]))
    assert [place for place, *_ in estimated(studio, named).suspicious] == [0]
    checked = replace(named, origins=("checked", *named.origins[1:]))
    assert estimated(studio, checked).suspicious == ()
    assert estimated(studio, checked).now == estimated(studio, named).now


def test_the_estimate_is_of_the_open_answers(studio: Studio) -> None:
    """However right the labelled items are, what the model is unsure of is expected to be wrong."""
    named = labelled({Origin.CHOSEN: (range(24), 0)})
    on_labelled = estimated(studio, named)
    unsure, sure = (estimated(studio, named, np.full(40, p)) for p in (0.6, 0.98))
    assert on_labelled.now.mean > 0.9
    assert unsure.now.mean < 0.75
    assert sure.now.mean > 0.93
    assert unsure.curve == sure.curve == on_labelled.curve
    for each in (unsure, sure):
        assert each.now.low < each.now.mean <= each.later.mean <= 1
        assert each.now.mean <= each.now.high <= each.later.high


@pytest.mark.parametrize("wrong", [0, 8])
def test_hidden_labels_correct_what_the_model_expects(studio: Studio, wrong: int) -> None:
    """Labels that contradict the others lower it; the more labels, the more they count."""
    right = {Origin.CHOSEN: (range(40), 0)}
    named = labelled({**right, Origin.SUGGESTED: (range(40, 40 + wrong), 1)} if wrong else right)
    probabilities = np.full(30, 0.8)
    mean = estimated(studio, named, probabilities).now.mean
    assert mean < 0.8 if wrong else mean > 0.8
    assert abs(mean - 0.8) < 0.2


def test_few_open_answers_are_less_certain(studio: Studio) -> None:
    named = labelled({Origin.CHOSEN: (range(24), 0)})
    few, many = (estimated(studio, named, np.full(count, 0.8)).now for count in (4, 4000))
    assert few.mean == pytest.approx(many.mean)
    assert few.half_width > many.half_width + 0.1
