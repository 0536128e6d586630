from pathlib import Path

import numpy as np
import pytest

from helpers.known_learners import write_blobs
from unitail.banks.cross import CrossTable
from unitail.banks.table import FeatureTable
from unitail.errors import InvalidBank


def _table(name: str, classes: tuple[str, ...], features: object, indices: object) -> FeatureTable:
    return FeatureTable(
        name=name,
        encoder="net",
        features=np.array(features, np.float32),
        class_indices=np.array(indices),
        class_names=classes,
    )


def test_classes_are_those_of_both_by_name_and_in_one_order() -> None:
    support = _table("a", ("x", "y", "z"), [[1], [2], [3]], [0, 1, 2])
    query = _table("b", ("z", "w", "y"), [[4], [5], [6], [7]], [0, 1, 2, 2])
    cross = CrossTable.of(support, query)
    assert (cross.full_name, cross.class_names) == ("net/a->b", ("y", "z"))
    assert cross.support.class_indices.tolist() == [-1, 0, 1]
    assert cross.query.class_indices.tolist() == [1, -1, 0, 0]


def test_a_query_is_never_a_row_of_the_support() -> None:
    support = _table("a", ("x", "y"), [[1], [2]], [0, 1])
    query = _table("b", ("x", "y"), [[1], [3], [2], [4], [5]], [0, 0, 1, 1, 1])
    cross = CrossTable.of(support, query)
    assert cross.query.class_indices.tolist() == [-1, 0, -1, 1, 1]
    assert cross.shared_rows == 2


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    first = write_blobs(tmp_path, "a", encoder="net")
    with pytest.raises(InvalidBank, match="a and b have different encoders: got net of width 4"):
        CrossTable.of(first, write_blobs(tmp_path, "b", encoder="other"))
    with pytest.raises(InvalidBank, match="net/a and net/c have too few classes in common: got 0"):
        CrossTable.of(first, _table("c", ("x", "y"), [[1] * 4, [2] * 4], [0, 1]))
