import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import ortho_group
from sklearn.metrics import roc_auc_score

from unitail.estimator.classifier import TailClassifier
from unitail.estimator.novelty import MAX_REFERENCES, Novelty, PartsNovelty, _quantiles
from unitail.estimator.rows import Rows

WIDTH = 6
MEANS = 3 * np.random.default_rng(0).normal(size=(8, WIDTH))


def sample(classes: range, shots: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    indices = np.repeat(np.arange(len(classes)), shots)
    noise = np.random.default_rng(seed).normal(size=(len(indices), WIDTH))
    return MEANS[classes][indices] + noise, indices


def novelty_of(shots: int, queries: NDArray[np.float64]) -> NDArray[np.float64]:
    features, indices = sample(range(4), shots, seed=1)
    return Novelty.of(Rows(features, indices, 4), seed=0)(queries)


KNOWN, NOVEL = sample(range(4), 50, seed=2)[0], sample(range(4, 8), 50, seed=3)[0]


@pytest.mark.parametrize("shots", [1, 5, 400])
def test_novel_classes_are_told_from_known_ones(shots: int) -> None:
    scores = novelty_of(shots, np.concatenate([KNOWN, NOVEL]))
    assert ((scores >= 0) & (scores <= 1)).all()
    assert roc_auc_score(np.repeat([0, 1], 200), scores) > 0.9


def test_it_is_a_quantile_among_rows_of_the_known_classes() -> None:
    scores = novelty_of(20, KNOWN)
    assert abs(np.mean(scores > 0.9) - 0.1) < 0.06
    assert abs(np.mean(scores > 0.5) - 0.5) < 0.15


def test_quantiles_are_uniform_for_the_fewest_rows() -> None:
    """Mean and spread of two rows are uncertain themselves, as in a prediction interval."""
    draws = np.random.default_rng(0).normal(size=(6000, 3))
    quantiles = np.array([_quantiles(each[2:], each[:2])[0] for each in draws])
    for level in (0.1, 0.5, 0.9, 0.97):
        error = (level * (1 - level) / len(draws)) ** 0.5
        assert (quantiles < level).mean() == pytest.approx(level, abs=3 * error)


def test_rotations_shifts_and_scales_change_nothing() -> None:
    features, indices = sample(range(4), 5, seed=1)
    rotation = ortho_group.rvs(WIDTH, random_state=0)
    plain = Novelty.of(Rows(features, indices, 4), seed=0)(NOVEL)
    moved = Novelty.of(Rows(50 * features @ rotation + 9, indices, 4), seed=0)(
        50 * NOVEL @ rotation + 9
    )
    np.testing.assert_allclose(moved, plain, atol=1e-8)


def test_far_away_is_novel_and_a_copy_is_not() -> None:
    features, indices = sample(range(4), 5, seed=1)
    novelty = Novelty.of(Rows(features, indices, 4), seed=0)
    assert novelty(np.full((1, WIDTH), 1e3))[0] > 0.99
    assert novelty(features[:1])[0] < 0.1


def test_equal_rows_have_a_defined_novelty() -> None:
    novelty = Novelty.of(Rows(np.ones((4, 2)), np.array([0, 0, 1, 1]), 2), seed=0)
    same, other = novelty(np.array([[1.0, 1.0], [1.0, 2.0]]))
    assert (same, other) == (pytest.approx(0.5), pytest.approx(1.0, abs=1e-4))


@pytest.mark.parametrize("copied", [1, 10, 60])
def test_copies_of_rows_change_nothing(copied: int) -> None:
    features, indices = sample(range(4), 15, seed=1)
    plain = Novelty.of(Rows(features, indices, 4), seed=0)
    places = np.random.default_rng(4).permutation(np.r_[np.arange(60), np.arange(copied)])
    twice = Novelty.of(Rows(features[places], indices[places], 4), seed=0)
    np.testing.assert_allclose(twice(KNOWN), plain(KNOWN), atol=1e-12)
    np.testing.assert_array_equal(np.sort(places[twice.places]), np.arange(60))
    some = plain.calibrated_on(np.arange(60) % 2 == 0)
    np.testing.assert_allclose(twice.calibrated_on(places % 2 == 0)(KNOWN), some(KNOWN), atol=1e-12)


@pytest.mark.parametrize("first", [True, False])
def test_a_row_calibrates_if_any_of_its_copies_does(first: bool) -> None:
    features, indices = sample(range(4), 15, seed=1)
    is_own = np.repeat([first, not first], 60)
    twice = Novelty.of(Rows(np.tile(features, (2, 1)), np.tile(indices, 2), 4), seed=0)
    assert len(twice.calibrated_on(is_own).left_out) == 60
    is_own[np.r_[:20, 60:80]] = False
    assert len(twice.calibrated_on(is_own).left_out) == 40


def test_zeros_of_either_sign_are_equal() -> None:
    features = np.array([[0.0, 1], [-0.0, 1], [3, 1], [4, 4]])
    novelty = Novelty.of(Rows(features, np.array([0, 0, 0, 1]), 2), seed=0)
    assert novelty.first_copies.tolist() == [0, 0, 2, 3]


def test_copies_of_rows_change_nothing_with_parts() -> None:
    """A part may repeat: rows are equal only if all of their parts are."""
    features, indices = sample(range(4), 15, seed=1)
    features[:, 4:] = np.round(features[:, 4:] / 4)
    rows, queries = Rows(features, indices, 4), KNOWN.copy()
    plain = PartsNovelty.of(rows, (4, 2), seed=0)(queries)
    twice = PartsNovelty.of(rows.take(np.r_[np.arange(60), np.arange(30)]), (4, 2), seed=0)
    assert (Novelty.of(rows.with_features(features[:, 4:]), seed=0).places < 60).sum() < 60
    np.testing.assert_allclose(twice(queries), plain, atol=1e-12)


def test_rows_of_one_label_and_its_copy_under_another_both_count() -> None:
    features, indices = sample(range(2), 5, seed=1)
    features[5] = features[0]
    assert len(Novelty.of(Rows(features, indices, 2), seed=0).places) == 10


def test_rows_are_left_out_only_where_their_class_goes_on() -> None:
    features, indices = sample(range(4), 3, seed=1)
    keep = np.array([0, 3, 4, 6, 9])  # one of class 0, two of class 1, one each of 2 and 3
    scale = Novelty.of(Rows(features[keep], indices[keep], 4), seed=0)
    assert len(scale.left_out) == 2


def test_many_rows_are_represented_by_some() -> None:
    features, indices = sample(range(4), MAX_REFERENCES, seed=1)
    assert Novelty.of(Rows(features, indices, 4), seed=0).left_out.shape == (MAX_REFERENCES,)


def test_a_part_that_says_nothing_of_classes_makes_nothing_novel() -> None:
    """Dates go on: those to come lie beyond all that were seen, and no class depends on them."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 4
    centres = 6 * np.eye(4)
    rows = np.hstack([centres[y] + rng.normal(size=(40, 4)), np.linspace(-1, 1, 40)[:, None]])
    known = np.hstack([centres[y] + rng.normal(size=(40, 4)), np.linspace(3, 5, 40)[:, None]])
    strange = np.hstack([-9 + rng.normal(size=(40, 4)), np.linspace(-1, 1, 40)[:, None]])
    for scale in (1, 30):
        rows, known, strange = (each * ([1] * 4 + [scale]) for each in (rows, known, strange))
        classifier = TailClassifier(parts=[4, 1], device="cpu").fit(rows, y)
        assert (classifier.novelty(known) > 0.95).mean() < 0.15
        assert (classifier.novelty(strange) > 0.95).all()
    whole = TailClassifier(scale="none", device="cpu").fit(rows, y)
    assert (whole.novelty(known) > 0.95).mean() > 0.5


def test_a_narrow_part_that_is_near_its_class_by_chance_counts_little() -> None:
    """A single number is often very near to something."""
    rng = np.random.default_rng(0)
    indices = np.repeat(np.arange(20), 4)
    telling = 3 * rng.normal(size=(20, WIDTH))[indices] + rng.normal(size=(80, WIDTH))
    rows = Rows(np.hstack([telling, rng.normal(size=(80, 1))]), indices, 20)
    assert PartsNovelty.of(rows, (WIDTH, 1), seed=0).weights[1] < 0.02


def test_a_part_that_is_always_the_same_counts_nothing() -> None:
    features, indices = sample(range(4), 5, seed=1)
    rows = Rows(np.hstack([features, np.zeros((20, 3))]), indices, 4)
    parts = PartsNovelty.of(rows, (WIDTH, 3), seed=0)
    assert parts.weights.tolist() == [1, 0]
    alone = Novelty.of(Rows(features, indices, 4), seed=0)
    asked = np.hstack([KNOWN, np.zeros((len(KNOWN), 3))])
    np.testing.assert_allclose(parts(asked), alone(KNOWN))


def test_parts_that_tell_no_classes_apart_count_alike() -> None:
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(4, 6)), np.arange(4)  # one of each class: nothing can be left out
    classifier = TailClassifier(parts=[3, 3], device="cpu").fit(rows, y)
    one, other = (rows[:2] + shift for shift in ([9, 9, 9, 0, 0, 0], [0, 0, 0, 9, 9, 9]))
    assert classifier.novelty(one).min() > classifier.novelty(rows[:2] + 0.1).max()
    assert classifier.novelty(other).min() > classifier.novelty(rows[:2] + 0.1).max()


@pytest.mark.parametrize("power", [-1060, 300, 1015])
def test_numbers_of_any_size_have_the_same_novelty(power: int) -> None:
    features, indices = sample(range(4), 5, seed=1)
    usual = Novelty.of(Rows(features, indices, 4), seed=0)(KNOWN)
    sized = Novelty.of(Rows(np.ldexp(features, power), indices, 4), seed=0)
    np.testing.assert_allclose(sized(np.ldexp(KNOWN, power)), usual, rtol=1e-3)
    assert (sized(np.full((1, WIDTH), 1e308)) > 0.99).all() or power > 1000


def test_rows_that_are_nearer_than_queries_make_no_query_novel_if_they_do_not_calibrate() -> None:
    """Answers that were confirmed many at once are the typical ones; what remains open is not."""
    features, indices = sample(range(4), 12, seed=1)
    centres = np.stack([features[indices == each].mean(axis=0) for each in range(4)])
    near = np.repeat(centres, 40, axis=0)
    near += 0.01 * np.random.default_rng(0).normal(size=near.shape)
    rows = Rows(np.concatenate([features, near]), np.r_[indices, np.repeat(np.arange(4), 40)], 4)
    alone, mixed = Novelty.of(Rows(features, indices, 4), seed=0), Novelty.of(rows, seed=0)
    own = mixed.calibrated_on(np.arange(len(rows)) < len(features))
    queries = sample(range(4), 25, seed=2)[0]
    assert [(each(queries) > 0.95).mean() < 0.15 for each in (alone, mixed, own)] == [
        True,
        False,
        True,
    ]
    assert own(KNOWN * 1000).min() > 0.95
    assert mixed.calibrated_on(np.arange(len(rows)) < 2) is mixed
    parts = PartsNovelty.of(rows, (WIDTH,), seed=0)
    of_own = parts.calibrated_on(np.arange(len(rows)) < len(features))
    np.testing.assert_allclose(of_own(queries), own(queries))
