from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unitail.errors import InvalidEpisode
from unitail.framework.episode import Episode, Query, Support, check_query_fits

ROWS = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]
CLASSES = [0, 1, 1]
INDICES = torch.tensor([CLASSES])  # (1, 3)
FEATURES = torch.tensor([ROWS])  # (1, 3, 2)


def _support(**changes: Any) -> Support:  # noqa: ANN401 - wrong values on purpose
    return Support(**{"features": FEATURES, "class_indices": INDICES, "ways": 2, **changes})


def test_single_episode_gets_a_batch_dimension() -> None:
    support = Support.from_arrays(ROWS, CLASSES)

    assert support.features.shape == (1, 3, 2)
    assert support.class_indices.shape == (1, 3)
    assert (support.num_episodes, support.num_support, support.feature_dim) == (1, 3, 2)
    assert support.ways == 2
    assert support.shots().tolist() == [[1, 2]]


@settings(deadline=None)  # the first example warms up
@given(
    episodes=st.integers(1, 4), ways=st.integers(2, 6), shots=st.integers(1, 4), seed=st.integers(0)
)
def test_shots_count_the_examples_of_each_class(
    episodes: int, ways: int, shots: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    once = np.tile(np.arange(ways), (episodes, 1))
    indices = np.concatenate([once, rng.integers(ways, size=(episodes, shots))], axis=1)
    features = rng.normal(size=(episodes, ways + shots, 3))
    support = Support.from_arrays(features, indices)

    expected = [np.bincount(row, minlength=ways).tolist() for row in indices]
    assert support.shots().tolist() == expected


def test_move_to_another_type_keeps_the_classes() -> None:
    episode = Episode.from_arrays(ROWS, CLASSES, ROWS, CLASSES).to("cpu", torch.float64)

    assert episode.support.features.dtype == episode.query.features.dtype == torch.float64
    assert episode.support.class_indices.dtype == torch.int64
    assert episode.query.class_indices is not None
    assert episode.query.class_indices.dtype == torch.int64
    assert Query.from_arrays(ROWS).to("cpu").class_indices is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"features": FEATURES.long()},
            r"support features have the wrong type: got torch\.int64; allowed: a floating-point"
            r" type\. Convert with `features\.float\(\)`",
        ),
        (
            {"features": FEATURES[0]},
            r"support features have the wrong shape: got \(3, 2\); allowed: \(episodes, examples,"
            r" width\)\. Add the missing dimensions, or build with `from_arrays`",
        ),
        (
            {"features": FEATURES[:, :0], "class_indices": INDICES[:, :0]},
            r"the support is empty: got 0 examples of width 2 in 1 episodes; allowed: at least one"
            r" of each\. Give the support at least one example",
        ),
        ({"features": FEATURES[:, :, :0]}, "the support is empty: got 3 examples of width 0"),
        ({"features": FEATURES[:0]}, "the support is empty: got .* in 0 episodes"),
        (
            {"class_indices": INDICES.float()},
            r"support class indices have the wrong type: got torch\.float32; allowed: torch\.int64"
            r"\. Number the classes 0\.\.K-1 and convert with `\.long\(\)`",
        ),
        (
            {"class_indices": INDICES[:, :2]},
            r"support class indices do not match the features: got \(1, 2\); allowed: \(1, 3\), one"
            r" for each example\. Correct the arrays",
        ),
        ({"class_indices": INDICES[0]}, r"do not match the features: got \(3,\)"),
        (
            {"ways": 1},
            r"a task needs at least two classes: got ways=1; allowed: 2 or more\. Add labelled"
            r" examples of another class",
        ),
    ],
)
def test_support_refuses_wrong_shapes_and_types(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidEpisode, match=message):
        _support(**changes)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_that_are_not_finite_are_refused(value: float) -> None:
    features = np.array(ROWS)
    features[1, 0] = value
    message = (
        r"features are not finite: got 1 NaN or infinite values of 6; allowed: finite numbers\."
        r" Impute or drop the rows concerned"
    )

    with pytest.raises(InvalidEpisode, match="support " + message):
        Support.from_arrays(features, CLASSES)
    with pytest.raises(InvalidEpisode, match="query " + message):
        Query.from_arrays(features)
    with pytest.raises(InvalidEpisode, match="query " + message):
        Episode.from_arrays(ROWS, CLASSES, features)


@pytest.mark.parametrize(
    ("indices", "ways", "message"),
    [
        (
            [0, 1, 2],
            2,
            r"support class indices are out of range: got values from 0 to 2; allowed: 0 to 1, with"
            r" 2 classes\. Number the classes 0\.\.K-1",
        ),
        ([-1, 0, 1], None, "support class indices are out of range: got values from -1 to 1"),
        (
            [0, 2, 2],
            None,
            r"a class has no example in the support: got class 1 of 3 without examples; allowed: at"
            r" least one example for each class\. Add an example of it, or renumber",
        ),
        ([0, 1, 1], 3, "a class has no example in the support: got class 2 of 3"),
        ([0, 0, 0], None, "a task needs at least two classes: got ways=1"),
    ],
)
def test_class_indices_that_do_not_number_the_classes_are_refused(
    indices: list[int], ways: int | None, message: str
) -> None:
    with pytest.raises(InvalidEpisode, match=message):
        Support.from_arrays(ROWS, indices, ways)


def test_class_missing_in_one_episode_of_a_batch_is_found() -> None:
    with pytest.raises(InvalidEpisode, match="got class 0 of 2 without examples"):
        Support.from_arrays([ROWS, ROWS], [[0, 1, 1], [1, 1, 1]])


def test_empty_arrays_are_refused() -> None:
    nothing, none = np.empty((0, 2)), np.empty(0, dtype=int)

    with pytest.raises(InvalidEpisode, match="the support is empty: got 0 examples of width 2"):
        Support.from_arrays(nothing, none)
    with pytest.raises(InvalidEpisode, match="the support is empty: got 0 examples"):
        Support.from_arrays([], [])
    with pytest.raises(InvalidEpisode, match=r"the query is empty: got 0 .* Give the query at"):
        Query.from_arrays(nothing)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            torch.zeros(1, 4, 3),
            r"the feature width of the query differs from the support's: got 3; allowed: 2, as in"
            r" the support\. Encode support and query in the same way",
        ),
        (
            torch.zeros(2, 4, 2),
            r"the number of episodes of the query differs .*: got 2; allowed: 1, as in the support",
        ),
        (
            torch.zeros(1, 4, 2, dtype=torch.float64),
            r"the feature type of the query .*: got torch\.float64; allowed: torch\.float32",
        ),
        (torch.zeros(1, 0, 2), "the query is empty: got 0 examples"),
        (torch.zeros(4, 2), r"query features have the wrong shape: got \(4, 2\)"),
        (torch.zeros(1, 4, 2).long(), r"query features have the wrong type: got torch\.int64"),
    ],
)
def test_query_that_does_not_fit_is_refused(query: torch.Tensor, message: str) -> None:
    with pytest.raises(InvalidEpisode, match=message):
        check_query_fits(_support(), query)
    with pytest.raises(InvalidEpisode, match=message):
        Episode(support=_support(), query=Query(features=query))


def test_query_class_indices_are_checked() -> None:
    with pytest.raises(InvalidEpisode, match=r"query class indices do not match .*: got \(1, 2\)"):
        Query(features=FEATURES, class_indices=INDICES[:, :2])
    with pytest.raises(InvalidEpisode, match=r"query class indices have the wrong type"):
        Query(features=FEATURES, class_indices=INDICES.int())
    with pytest.raises(InvalidEpisode, match=r"query class indices are out of range: got .* to 2"):
        Episode.from_arrays(ROWS, CLASSES, ROWS, [0, 1, 2])
