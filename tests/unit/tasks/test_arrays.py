from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unitail.errors import InvalidEpisode, UserError
from unitail.framework.task import Task, log_loss
from unitail.randomness import stream
from unitail.tasks.arrays import ArrayTask


def _task(sizes: list[int], seed: int = 0) -> ArrayTask:
    """Rows in random order, each with a feature value of its own."""
    indices = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    values = np.arange(len(indices), dtype=float)
    return ArrayTask(features=np.stack([values, -values], 1), class_indices=indices, name="rows")


@settings(deadline=None, max_examples=50)
@given(
    sizes=st.lists(st.integers(2, 9), min_size=2, max_size=5),
    episodes=st.integers(1, 4),
    data=st.data(),
)
def test_no_row_comes_twice_and_classes_are_true(
    sizes: list[int], episodes: int, data: st.DataObject
) -> None:
    shots = data.draw(st.integers(1, min(sizes) - 1))
    queries = data.draw(st.integers(1, min(sizes) - shots))
    task = _task(sizes, seed := data.draw(st.integers(0, 99)))
    episode = task.sample(episodes=episodes, shots=shots, queries=queries, generator=stream(seed))
    episode.check_values()
    support, query = episode.support, episode.query
    rows = torch.cat([support.features, query.features], dim=1)[..., 0]  # (B, n + m)
    assert query.class_indices is not None
    given_classes = torch.cat([support.class_indices, query.class_indices], dim=1)

    assert all(len(set(row)) == len(row) for row in rows.tolist())
    true_classes = np.random.default_rng(seed).permutation(np.repeat(range(len(sizes)), sizes))
    assert np.array_equal(given_classes.numpy(), true_classes[rows.long().numpy()])
    assert support.shots().tolist() == [[shots] * len(sizes)] * episodes


def test_rows_are_drawn_uniformly() -> None:
    task = _task([4, 9])  # classes of different sizes: padding must never be drawn
    episode = task.sample(episodes=9000, shots=2, queries=1, generator=stream(0))

    for part, count in ((episode.support, 2), (episode.query, 1)):
        assert part.class_indices is not None
        for index, size in enumerate((4, 9)):
            values = part.features[part.class_indices == index][:, 0]
            counts = values.unique(return_counts=True)[1].numpy()
            assert counts.sum() == 9000 * count
            assert len(counts) == size
            assert stats.chisquare(counts).pvalue > 1e-3


def test_episodes_of_a_batch_differ_and_follow_the_generator() -> None:
    task = _task([20, 20])
    first, again, other = (
        task.sample(episodes=2, shots=5, queries=5, generator=stream(seed)) for seed in (0, 0, 1)
    )

    assert torch.equal(first.support.features, again.support.features)
    assert not torch.equal(first.support.features, other.support.features)
    assert not torch.equal(first.support.features[0], first.support.features[1])


def test_task_is_described() -> None:
    task: Task = ArrayTask(
        features=np.zeros((5, 7)), class_indices=[0, 1, 2, 1, 2], name="zeros", loss=log_loss
    )

    assert (task.name, task.feature_dim, task.ways) == ("zeros", 7, 3)
    assert task.loss is log_loss
    assert task.bayes_risk is None
    sampled = _task([2, 2]).sample(episodes=1, shots=1, queries=1, generator=stream(0))
    assert sampled.support.features.dtype == torch.get_default_dtype()


def test_class_with_too_few_rows_is_named() -> None:
    message = (
        r"class 1 of task 'rows' has too few rows: got 3; allowed: 4 or more\. Ask for fewer shots"
        " or queries"
    )
    with pytest.raises(UserError, match=message):
        _task([6, 3, 5]).sample(episodes=1, shots=1, queries=3, generator=stream(0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class_indices": [0, 2, 2]}, "class 1 of task 't' has too few rows: got 0; allowed: 1"),
        ({"class_indices": [0, 0, 0]}, "a task needs at least two classes: got .* up to 0"),
        ({"class_indices": [-1, 0, 1]}, "task class indices are out of range: got .* from -1 to 1"),
        ({"class_indices": [0, 1]}, r"task class indices do not match the features: got \(1, 2\)"),
        ({"class_indices": [0.0, 1.0, 1.0]}, "task class indices have the wrong type: got float64"),
        ({"features": [[1.0], [np.nan], [2.0]]}, "task features are not finite: got 1 NaN"),
        ({"features": [["a"], ["b"], ["c"]]}, "task features have the wrong type: got <U1"),
        ({"features": np.zeros((0, 1))}, "the task is empty: got 0 examples"),
        (
            {"features": np.zeros((2, 3, 1))},
            r"wrong shape: got \(2, 3, 1\); allowed: \(rows, width",
        ),
        ({"features": np.zeros(3)}, r"task features have the wrong shape: got \(3,\)"),
    ],
)
def test_wrong_data_are_refused(changes: dict[str, Any], message: str) -> None:
    data = {"features": [[0.0], [1.0], [2.0]], "class_indices": [0, 1, 1]}
    with pytest.raises((InvalidEpisode, UserError), match=message):
        ArrayTask(**{**data, **changes}, name="t")


def test_drawing_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="queries are too few: got 0"):
        _task([3, 3]).sample(episodes=1, shots=1, queries=0, generator=stream(0))


def test_the_bayes_risk_is_known_only_if_it_is_given() -> None:
    data = {"features": [[0.0], [1.0]], "class_indices": [0, 1], "name": "two"}
    assert ArrayTask(**data).bayes_risk is None
    assert ArrayTask(**data, bayes_risk=0.1).bayes_risk == 0.1


def test_the_fingerprint_knows_rows_and_classes() -> None:
    features, indices = np.arange(8.0).reshape(4, 2), np.array([0, 0, 1, 1])

    def stamp(rows: np.ndarray, classes: np.ndarray) -> str:
        return ArrayTask(features=rows, class_indices=classes, name="any").fingerprint

    assert stamp(features, indices) == stamp(features, indices)
    others = [(features + 1, indices), (features, 1 - indices), (features, np.array([0, 1, 1, 1]))]
    assert stamp(features, indices) not in {stamp(*other) for other in others}
