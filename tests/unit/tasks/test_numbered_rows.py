from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.tables import numbered_table
from unitail.errors import InvalidEpisode, UserError
from unitail.tasks import numbered_rows as module
from unitail.tasks.numbered_rows import NumberedRows


@given(
    shapes=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=5), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_rows_of_a_class_are_neighbours_and_none_is_lost(
    shapes: list[list[int]], seed: int
) -> None:
    tables = [
        numbered_table(sizes, name=f"set{number}", first=100 * number, seed=seed)
        for number, sizes in enumerate(shapes)
    ]
    numbered = NumberedRows.of(tables, {})
    numbers = numbered.read(np.arange(numbered.num_rows))[:, 0].long().numpy()

    assert sorted(numbers) == sorted(n for table in tables for n in table.features[:, 0])
    for number, table in enumerate(tables):
        assert numbered.sizes[number].tolist() == sorted(shapes[number], reverse=True) + [0] * (
            numbered.sizes.shape[1] - len(shapes[number])
        )
        for size, start in zip(numbered.sizes[number], numbered.starts[number], strict=True):
            own = numbers[start : start + size] - 100 * number
            assert len(set(table.class_indices[own])) == min(size, 1)


def test_rows_are_read_in_the_order_asked_for() -> None:
    tables = [numbered_table([3, 2], name="a"), numbered_table([4, 4], name="b", first=10)]
    numbered = NumberedRows.of(tables, {})
    everything = numbered.read(np.arange(13))
    rows = np.array([12, 0, 7, 7, 4, 5])

    assert torch.equal(numbered.read(rows), everything[torch.from_numpy(rows)])


def test_all_rows_are_read_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = NumberedRows.of([numbered_table([3, 4])], {})
    expected = numbered.read(np.arange(7))
    monkeypatch.setattr(module, "CHUNK_ROWS", 2)

    assert torch.equal(numbered.to(torch.device("cpu"), resident=True).features, expected)


@pytest.mark.parametrize(
    ("kinds", "kept"),
    [
        (("float16", "float16"), torch.float16),
        (("float16", "float32"), torch.float32),
        (("float64", "float64"), torch.float32),
    ],
)
def test_half_precision_is_kept_where_all_tables_have_it(
    kinds: tuple[str, str], kept: torch.dtype
) -> None:
    tables = [
        numbered_table([2, 2], name=kind + str(n), dtype=kind) for n, kind in enumerate(kinds)
    ]
    numbered = NumberedRows.of(tables, {})

    assert numbered.read(np.arange(8)).dtype == kept
    assert numbered.num_bytes == 8 * 3 * kept.itemsize


def test_weights_are_numbers_of_classes_unless_given() -> None:
    tables = [numbered_table([5, 5, 4], name="a"), numbered_table([5, 1], name="b")]
    numbered = NumberedRows.of(tables, {"b": 0.5})

    assert numbered.weights.tolist() == [3.0, 0.5]
    assert numbered.classes_with(5).tolist() == [2, 1]
    assert numbered.weight_of(ways=2, rows=4) == 3.0
    assert numbered.weight_of(ways=1, rows=4) == 3.5


def test_rows_left_out_of_a_subset_are_not_listed() -> None:
    table = numbered_table([3, 2, 4])
    numbered = NumberedRows.of([table.select_classes(["set 2", "set 1"])], {})
    numbers = numbered.read(np.arange(6))[:, 0].long().numpy()

    assert numbered.sizes.tolist() == [[4, 2]]
    assert table.class_indices[numbers].tolist() == [2] * 4 + [1] * 2


GOOD = numbered_table([3, 3])


def test_tables_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(UserError, match="a data set is listed twice: got encoder/set"):
        NumberedRows.of([GOOD, GOOD], {})
    wide = numbered_table([3, 3], name="wide", width=4)
    message = r"'encoder' differ in shape: got \(6, 4\) in wide; allowed: the width of set, \(6, 3"
    with pytest.raises(UserError, match=message):
        NumberedRows.of([GOOD, wide], {})


def test_infinite_features_are_refused_when_read() -> None:
    table = replace(GOOD, features=np.full((6, 3), np.inf, dtype=np.float16))

    with pytest.raises(InvalidEpisode, match="encoder bank features are not finite: got 3 NaN or"):
        NumberedRows.of([table], {}).read(np.array([4]))
