import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from unitail.benchmark.compare import (
    EpisodeRows,
    compare,
    compare_accuracies,
    compare_groups,
    paired_bootstrap,
    read_rows,
)
from unitail.errors import UserError


def _rows(
    learner: str,
    accuracies: Sequence[float],
    *,
    hashes: Sequence[int] | None = None,
    data_set: str = "birds",
    group: str = "images",
    protocol: str = "5-way 1-shot",
) -> EpisodeRows:
    count = len(accuracies)

    def words(value: str) -> NDArray[np.object_]:
        return np.full(count, value, dtype=object)

    return EpisodeRows(
        learner=words(learner),
        group=words(group),
        data_set=words(f"net/{data_set}"),
        protocol=words(protocol),
        shots=np.ones(count, np.int16),
        hash=np.array(range(count) if hashes is None else hashes, np.uint64),
        accuracy=np.array(accuracies, np.float32),
    )


def _joined(*parts: EpisodeRows) -> EpisodeRows:
    names = vars(parts[0])
    return EpisodeRows(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    )


def test_a_hand_computed_case() -> None:
    # Two differences, 0.2 and 0.4: a resample has mean 0.2, 0.3 or 0.4 with 1/4, 1/2, 1/4.
    rows = _joined(_rows("a", [0.5, 0.9]), _rows("b", [0.3, 0.5]))
    comparison = compare(rows, "a", "b")
    assert comparison.difference == pytest.approx(0.3)
    assert (comparison.low, comparison.high) == pytest.approx((0.2, 0.4))
    assert (comparison.pairs, comparison.data_sets) == (2, ("net/birds",))
    sentence = (
        "a is better than b by 30.0 points (95 % interval 20.0 to 40.0;"
        " 2 pairs of episodes on net/birds)"
    )
    assert str(comparison) == sentence
    assert str(compare(rows, "b", "a")) == sentence


def test_rows_are_paired_by_hash_whatever_their_order() -> None:
    first = _rows("a", [0.5, 0.6, 0.7], hashes=[1, 2, 3])
    second = _rows("b", [0.6, 0.4, 0.1], hashes=[3, 1, 9])
    comparison = compare(_joined(first, second), "a", "b")
    assert comparison.pairs == 2
    assert (comparison.low, comparison.high) == pytest.approx((0.1, 0.1))


def test_data_sets_weigh_the_same_whatever_their_size() -> None:
    parts = [
        *(_rows("a", [1.0] * 10), _rows("b", [0.0] * 10)),
        *(_rows("a", [0.5] * 90, data_set="cars"), _rows("b", [0.5] * 90, data_set="cars")),
    ]
    comparison = compare(_joined(*parts), "a", "b")
    assert comparison.difference == pytest.approx(0.5)
    assert (comparison.low, comparison.high) == pytest.approx((0.5, 0.5))
    assert str(comparison).endswith("100 pairs of episodes on 2 data sets)")


def test_protocols_are_not_mixed_up() -> None:
    parts = [
        _rows(name, [value] * 4, protocol=protocol)
        for protocol in ("5-way 1-shot", "5-way 5-shot")
        for name, value in (("a", 0.75), ("b", 0.25))
    ]
    comparison = compare(_joined(*parts), "a", "b")
    assert comparison.pairs == 8
    assert comparison.data_sets == ("net/birds, 5-way 1-shot", "net/birds, 5-way 5-shot")


def test_a_difference_that_cannot_be_shown_is_reported_as_such() -> None:
    comparison = compare_accuracies("a", "b", {"net/birds": np.array([0.1, -0.1, 0.1, -0.1])})
    assert not comparison.shown
    assert str(comparison).startswith(
        "no difference can be shown: a minus b is 0.0 points (95 % inte"
    )


def test_each_group_and_all_of_them_are_compared() -> None:
    parts = [
        _rows(name, [value] * 3, data_set=data_set, group=group)
        for data_set, group in (("birds", "images"), ("news", "text"))
        for name, value in (("a", 0.75), ("b", 0.25))
    ]
    alone = _rows("a", [0.5], data_set="dogs", group="audio")
    comparisons = compare_groups(_joined(*parts, alone), "a", "b")
    assert list(comparisons) == [
        f"5-way 1-shot, {group}" for group in ("images", "text", "all groups")
    ]
    assert comparisons["5-way 1-shot, all groups"].pairs == 6


def test_what_cannot_be_compared_is_refused() -> None:
    rows = _joined(_rows("a", [0.5, 0.6]), _rows("b", [0.3], hashes=[7]))
    with pytest.raises(UserError, match="a and b have no episode in common: got 2 and 1 answered"):
        compare(rows, "a", "b")
    with pytest.raises(UserError, match="no episode in common"):
        compare_groups(rows, "a", "b")
    with pytest.raises(UserError, match="no answers of such a learner: got c; allowed: a, b"):
        compare(rows, "a", "c")


def test_the_seed_decides_the_resamples() -> None:
    values = [np.random.default_rng(0).normal(size=50)]
    assert paired_bootstrap(values, seed=1) == paired_bootstrap(values, seed=1)
    assert paired_bootstrap(values, seed=1) != paired_bootstrap(values, seed=2)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    truth = np.array([0.05, -0.02, 0.1])
    hits = 0
    for trial in range(300):
        values = [mean + generator.normal(scale=0.2, size=80) for mean in truth]
        low, high = paired_bootstrap(values, resamples=500, seed=trial)
        hits += low <= truth.mean() <= high
    # 95 % of 300 are 285, with a standard deviation of 3.8.
    assert 270 <= hits <= 297


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no results of a benchmark: got FileNotFoundError"):
        read_rows(tmp_path)


def test_a_row_that_stands_twice_counts_once() -> None:
    rows = _joined(_rows("a", [0.5, 0.9], hashes=[1, 1]), _rows("b", [0.25], hashes=[1]))
    assert compare(rows, "a", "b").pairs == 1
    assert compare(rows, "a", "b").difference == 0.25


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(
        UserError, match=r"pyarrow is not installed.*pip install 'unitail\[report\]'"
    ):
        read_rows(tmp_path)
