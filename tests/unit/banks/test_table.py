from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers.tables import numbered_table
from unitail.banks.table import FeatureTable
from unitail.errors import UserError


def _rows(table: FeatureTable) -> dict[str, set[int]]:
    """Return the rows of each class, by name."""
    return {
        name: set(np.flatnonzero(table.class_indices == index).tolist())
        for index, name in enumerate(table.class_names)
    }


def test_a_table_knows_its_name_and_sizes() -> None:
    table = numbered_table([2, 3, 4], width=5)
    subset = table.select_classes(["set 2", "set 0"])

    assert (table.full_name, table.feature_dim) == ("encoder/set", 5)
    assert table.class_sizes.tolist() == [2, 3, 4]
    assert subset.class_sizes.tolist() == [4, 2]
    assert subset.features is table.features  # nothing is copied


def test_selected_classes_are_numbered_as_named() -> None:
    table = numbered_table([2, 3, 4, 5])
    subset = table.select_classes(["set 3", "set 1"])
    again = subset.select_classes(["set 1"])

    assert subset.class_names == ("set 3", "set 1")
    assert _rows(subset) == {name: _rows(table)[name] for name in ("set 3", "set 1")}
    assert _rows(again) == {"set 1": _rows(table)["set 1"]}
    assert (subset.class_indices == -1).sum() == 6


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["set 0", "cat", "dog"],
            r"selected from encoder/set: got unknown cat, dog; allowed: dist",
        ),
        (
            ["set 0", "set 0"],
            "got 2 names: set 0, set 0; allowed: distinct names .* as set 0, set",
        ),
        ([], "got 0 names"),
    ],
)
def test_classes_that_cannot_be_selected_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        numbered_table([2] * 5).select_classes(names)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": np.zeros(6)}, r"features of encoder/set are wrong: got \(6,\)"),
        ({"features": np.zeros((6, 2), int)}, "are wrong: got int64; allowed: floating"),
        (
            {"features": np.zeros((5, 2))},
            r"class indices of encoder/set are wrong: got \(6,\); allowed: one for each row",
        ),
        ({"class_indices": np.full(6, 2)}, "got 0 to 2; allowed: 0 to 1, or -1"),
        ({"class_indices": np.full(6, -2)}, "got -2 to 0; allowed: 0 to 1, or -1"),
    ],
)
def test_wrong_tables_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        replace(numbered_table([3, 3]), **changes)
