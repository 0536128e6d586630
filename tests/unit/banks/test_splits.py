from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.tables import numbered_table
from unitail.banks.splits import check_disjoint, drop_shared_rows, split_classes
from unitail.banks.table import FeatureTable
from unitail.errors import Leakage, UserError


def _rows(table: FeatureTable) -> dict[str, set[int]]:
    """Return the rows of each class, by name."""
    return {
        name: set(np.flatnonzero(table.class_indices == index).tolist())
        for index, name in enumerate(table.class_names)
    }


@given(
    sizes=st.lists(st.integers(1, 5), min_size=4, max_size=12),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_sides_share_no_class_and_lose_no_row(
    sizes: list[int], seed: int, data: st.DataObject
) -> None:
    held_out = data.draw(st.integers(2, len(sizes) - 2))
    table = numbered_table(sizes)
    training, testing = split_classes(table, held_out, seed)

    assert len(testing.class_names) == held_out
    assert not set(training.class_names) & set(testing.class_names)
    assert _rows(training) | _rows(testing) == _rows(table)
    assert training.features is table.features  # nothing is copied
    check_disjoint([training], [testing])


def test_a_share_of_the_classes_can_be_held_out() -> None:
    training, testing = split_classes(numbered_table([2] * 200), 0.2, seed=0)
    assert (len(training.class_names), len(testing.class_names)) == (160, 40)


def test_the_split_depends_on_the_seed_but_neither_on_encoder_nor_order() -> None:
    table = numbered_table([2] * 30)
    turned = replace(table, encoder="other", class_names=table.class_names[::-1])
    one, same, other = (
        set(split_classes(*arguments)[1].class_names)
        for arguments in ((table, 10, 0), (turned, 10, 0), (table, 10, 1))
    )
    assert one == same
    assert one != other


def test_every_class_is_held_out_equally_often() -> None:
    table = numbered_table([1] * 8)
    held = [name for seed in range(400) for name in split_classes(table, 2, seed)[1].class_names]
    counts = [held.count(name) for name in table.class_names]

    assert sum(counts) == 800
    assert all(60 < count < 140 for count in counts)  # 100 ± 5 deviations


@pytest.mark.parametrize(("held_out", "got"), [(1, "1 of 6"), (5, "5 of 6"), (0.1, "1 of 6")])
def test_splits_without_two_classes_on_each_side_are_refused(held_out: float, got: str) -> None:
    message = (
        f"classes of encoder/set cannot be split this way: got held_out={held_out}, {got} classes"
    )
    with pytest.raises(UserError, match=message):
        split_classes(numbered_table([2] * 6), held_out, seed=0)


def _with_classes(table: FeatureTable, names: tuple[str, ...]) -> FeatureTable:
    return replace(table, class_names=names)


@pytest.mark.parametrize("encoder", ["encoder", "other"])
def test_shared_classes_are_found_whatever_the_encoder(encoder: str) -> None:
    training = numbered_table([2, 2, 2], name="birds")
    testing = numbered_table([2, 2, 2, 2], name="birds", first=50, encoder=encoder)
    message = (
        f"the test table {encoder}/birds has classes of the training table encoder/birds: got 3 in"
        " common: birds 0, birds 1, birds 2; allowed: no class in both. Split the data set with"
    )
    with pytest.raises(Leakage, match=message):
        check_disjoint([numbered_table([2, 2], name="cars", first=90), training], [testing])


def test_classes_of_other_data_sets_may_have_the_same_names() -> None:
    names = ("left", "right")
    training = _with_classes(numbered_table([2, 2], name="hands"), names)
    testing = _with_classes(numbered_table([2, 2], name="feet", first=50), names)
    check_disjoint([training], [testing])
    with pytest.raises(Leakage, match="got 2 in common: left, right"):
        check_disjoint([replace(training, name="feet")], [testing])


@pytest.mark.parametrize(("train_type", "test_type"), [("float32",) * 2, ("float16", "float32")])
def test_shared_rows_are_found_under_other_names(train_type: str, test_type: str) -> None:
    training = numbered_table([20, 20], name="birds", dtype=train_type)
    testing = numbered_table([3, 3], name="copies", first=35, dtype=test_type)
    testing.features[0] += 0.2  # row 35 is another one now
    message = (
        "the test table encoder/copies has rows of the training tables encoder/birds: got 4 rows"
        r" with equal features: 1, 2, 3 and 1 more; allowed: no row in both. .*`drop_shared_rows\("
    )
    untouched = numbered_table([2, 2], first=90)
    with pytest.raises(Leakage, match=message):
        check_disjoint([untouched, training], [testing])

    same, cleaned = drop_shared_rows([untouched, training], [testing])
    check_disjoint([same, cleaned], [testing])
    assert same is untouched
    assert (cleaned.class_indices == -1).sum() == 4
    assert cleaned.class_names == training.class_names


def test_rows_of_other_encoders_cannot_be_compared() -> None:
    training = [numbered_table([2, 2], name="birds")]
    testing = [numbered_table([2, 2], name="cars", encoder="other")]
    check_disjoint(training, testing)
    assert drop_shared_rows(training, testing) == training


def test_rows_left_out_of_a_subset_are_not_compared() -> None:
    training, testing = split_classes(numbered_table([3] * 6), 2, seed=0)
    check_disjoint([training], [testing])
    with pytest.raises(Leakage, match="has rows of the training tables"):
        check_disjoint([replace(training, name="renamed")], [testing, training])


def test_negative_zero_is_zero() -> None:
    training = replace(numbered_table([1, 1], name="a"), features=np.zeros((2, 3)))
    testing = replace(numbered_table([1, 1], name="b"), features=-np.zeros((2, 3)))

    with pytest.raises(Leakage, match="2 rows with equal features"):
        check_disjoint([training], [testing])
