import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from unitail.errors import TooManyClasses
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.fitted import support_limit
from unitail.estimator.rows import Rows, centres, class_quota, reduced
from unitail.learners.in_context import MAX_STATES


def rows(shots: list[int], width: int = 3, seed: int = 0) -> Rows:
    generator = np.random.default_rng(seed)
    indices = generator.permutation(np.repeat(np.arange(len(shots)), shots))
    means = 3 * generator.normal(size=(len(shots), width))
    return Rows(means[indices] + generator.normal(size=(len(indices), width)), indices, len(shots))


@pytest.mark.parametrize(
    ("shots", "limit", "quota"),
    [
        ([10, 10, 10], 30, 10),
        ([10, 10, 10], 29, 9),
        ([1, 2, 100], 50, 47),
        ([1, 50, 100], 51, 25),
        ([5, 5, 5], 2, 1),
        ([100], 7, 7),
    ],
)
def test_the_quota_is_as_large_as_the_limit_allows(
    shots: list[int], limit: int, quota: int
) -> None:
    counts = np.array(shots)
    assert class_quota(counts, limit) == quota
    if limit >= len(shots):
        assert np.minimum(counts, quota).sum() <= limit


def test_small_supports_are_left_alone() -> None:
    all_rows = rows([5, 5])
    assert reduced(all_rows, 10, seed=0) is all_rows
    assert reduced(all_rows, None, seed=0) is all_rows


def test_large_classes_are_replaced_by_centres_and_small_ones_kept() -> None:
    all_rows = rows([1, 3, 200, 500])
    few = reduced(all_rows, 44, seed=0)
    assert list(few.shots) == [1, 3, 20, 20]
    for index in (0, 1):
        kept = few.features[few.class_indices == index]
        np.testing.assert_array_equal(kept, all_rows.features[all_rows.class_indices == index])
    mean = all_rows.features[all_rows.class_indices == 3].mean(axis=0)
    assert np.abs(few.features[few.class_indices == 3].mean(axis=0) - mean).max() < 0.5
    assert few.features.dtype == all_rows.features.dtype


def test_the_seed_decides_the_reduction() -> None:
    all_rows = rows([300, 300])
    one, same, other = (reduced(all_rows, 50, seed).features for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_every_class_keeps_a_row() -> None:
    few = reduced(rows([4] * 10), 3, seed=0)
    assert list(few.shots) == [1] * 10


def test_equal_rows_have_one_centre() -> None:
    assert centres(np.ones((50, 2)), 5, seed=0).tolist() == [[1.0, 1.0]]
    assert centres(np.array([[0.0], [2.0]]), 1, seed=0).tolist() == [[1.0]]


def test_the_limit_follows_the_memory_for_many_classes() -> None:
    assert support_limit(4000, 10) == 4000
    assert support_limit(4000, 1000) == MAX_STATES // 1000
    assert support_limit(2, 10) == 10
    assert support_limit(None, 10**6) is None


def test_too_many_classes_are_refused() -> None:
    with pytest.raises(TooManyClasses, match="got 5000 classes; allowed: at most 1448, or any"):
        support_limit(4000, 5000)


def test_a_reduced_support_still_teaches() -> None:
    task = rows([400] * 4, width=8)
    asked = rows([400] * 4, width=8)
    classifier = TailClassifier(max_support=80, random_state=0, visibility="joint")
    classifier.fit(task.features, task.class_indices)
    assert classifier.fitted_.hypothesis.reads[0].support.num_support == 80
    whole = LogisticRegression().fit(task.features, task.class_indices)
    least = whole.score(asked.features, asked.class_indices) - 0.02
    assert classifier.score(asked.features, asked.class_indices) > least


def test_adding_to_a_reduced_support_equals_fitting_on_everything() -> None:
    task = rows([60] * 3)
    reduced = {"max_support": 30, "random_state": 0, "visibility": "joint"}
    classifier = TailClassifier(**reduced)
    classifier.fit(task.features[:100], task.class_indices[:100])
    added = classifier.add(task.features[100:], task.class_indices[100:])
    whole = TailClassifier(**reduced).fit(task.features, task.class_indices)
    np.testing.assert_array_equal(
        added.predict_proba(task.features), whole.predict_proba(task.features)
    )
