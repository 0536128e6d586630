import numpy as np
import pytest

from unitail.studio.suggestions import doubts, suggest


def blobs(sizes: list[int], seed: int = 0) -> np.ndarray:
    """Return groups of rows far from each other."""
    generator = np.random.default_rng(seed)
    centres = 10 * np.eye(len(sizes), 12)
    return np.concatenate(
        [
            centre + generator.normal(size=(size, 12))
            for centre, size in zip(centres, sizes, strict=True)
        ]
    ).astype(np.float32)


def groups(places: np.ndarray, sizes: list[int]) -> list[int]:
    return np.repeat(np.arange(len(sizes)), sizes)[places].tolist()


NOTHING = np.zeros((0, 12), np.float32)


def test_at_first_every_group_is_asked_about() -> None:
    sizes = [40, 30, 20, 10]
    chosen = suggest(blobs(sizes), None, NOTHING, 4)
    assert sorted(groups(chosen, sizes)) == [0, 1, 2, 3]


def test_a_crowd_of_alike_doubtful_items_is_asked_about_once() -> None:
    sizes = [50, 50, 50]
    rows, doubt = blobs(sizes), np.full(150, 0.02)
    doubt[:50] = 1.0
    doubt[100:] = 0.6
    most_doubtful = np.argsort(-doubt, kind="stable")[:2]
    assert groups(most_doubtful, sizes) == [0, 0]
    assert sorted(groups(suggest(rows, doubt, NOTHING, 2), sizes)) == [0, 2]


def test_doubt_decides_where_all_are_alike() -> None:
    rows, doubt = blobs([60]), np.full(60, 0.01)
    doubt[7] = 1.0
    assert suggest(rows, doubt, NOTHING, 1).tolist() == [7]


def test_all_are_different_and_the_same_for_a_seed() -> None:
    rows = np.zeros((30, 12), np.float32)
    chosen = suggest(rows, None, NOTHING, 12, seed=3)
    assert len(set(chosen.tolist())) == 12
    assert np.array_equal(chosen, suggest(rows, None, NOTHING, 12, seed=3))
    assert len(suggest(rows, np.zeros(30), rows, 99)) == 30
    assert suggest(rows[:0], None, NOTHING, 5).tolist() == []


def test_many_are_thinned_to_the_most_doubtful() -> None:
    rows = np.random.default_rng(0).normal(size=(2500, 12)).astype(np.float32)
    doubt = np.linspace(0, 1, 2500)
    assert suggest(rows, doubt, NOTHING, 50).min() >= 500
    assert len(suggest(rows, None, NOTHING, 5)) == 5


@pytest.mark.parametrize(
    ("pair", "doubt"), [((0.5, 0.5), 1.0), ((1.0, 0.0), 0.0), ((0.6, 0.3), 0.7)]
)
def test_doubt_is_how_near_the_second_answer_is(pair: tuple[float, float], doubt: float) -> None:
    assert doubts(np.array([pair]))[0] == pytest.approx(doubt)
