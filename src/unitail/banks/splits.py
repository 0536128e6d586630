"""Split tables by class, and check that tables have no classes or rows in common."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from unitail.banks.table import CHUNK_ROWS, FeatureTable
from unitail.errors import Leakage, UserError
from unitail.randomness import stream
from unitail.wording import some


def split_classes(
    table: FeatureTable, held_out: int | float, seed: int
) -> tuple[FeatureTable, FeatureTable]:
    """Split a table by class into a training table and a held-out table.

    `held_out` is a number of classes or, as a float, a share of them. Each class has a random key,
    and the classes with the smallest keys are held out. Keys depend neither on the encoder nor on
    the order of the classes, so all tables of a data set are split in the same way.
    """
    names = table.class_names
    count = held_out if isinstance(held_out, int) else round(held_out * len(names))
    if not 2 <= count <= len(names) - 2:
        raise UserError(
            f"the classes of {table.full_name} cannot be split this way",
            got=f"held_out={held_out}, {count} of {len(names)} classes",
            allowed="2 or more classes on each side",
        )
    ranked = sorted(names, key=lambda name: _key(seed, table.name, name))
    chosen = set(ranked[:count])
    return (
        table.select_classes([name for name in names if name not in chosen]),
        table.select_classes([name for name in names if name in chosen]),
    )


def drop_shared_rows(
    training: Sequence[FeatureTable], testing: Sequence[FeatureTable]
) -> list[FeatureTable]:
    """Return the training tables without rows that are also in a test table of their encoder."""
    cleaned: dict[int, FeatureTable] = {}
    for encoder in dict.fromkeys(table.encoder for table in training):
        tests = [table for table in testing if table.encoder == encoder]
        trains = {place: table for place, table in enumerate(training) if table.encoder == encoder}
        dtype = _common_dtype([*trains.values(), *tests])
        test_digests = {digest for test in tests for _, digest in _digests(test, dtype)}
        for place, table in trains.items():
            cleaned[place] = _without(table, test_digests, dtype) if test_digests else table
    return [cleaned[place] for place in range(len(training))]


def check_disjoint(training: Sequence[FeatureTable], testing: Sequence[FeatureTable]) -> None:
    """Raise `Leakage` if a test table has a class or a row in common with a training table.

    Classes are identified by the names of data set and class, whatever the encoder. Rows are
    identified by their features, so they are compared only between tables of the same encoder.
    """
    for test in testing:
        for train in training:
            _check_classes(train, test)
    for encoder in dict.fromkeys(test.encoder for test in testing):
        _check_rows(
            [table for table in training if table.encoder == encoder],
            [table for table in testing if table.encoder == encoder],
        )


def _check_classes(train: FeatureTable, test: FeatureTable) -> None:
    trained = set(train.class_names) if train.name == test.name else set()
    shared = [name for name in test.class_names if name in trained]
    if shared:
        raise Leakage(
            f"the test table {test.full_name} has classes of the training table {train.full_name}",
            got=f"{len(shared)} in common: {some(shared)}",
            allowed="no class in both",
            remedy="Split the data set with `split_classes` and the same seed for every encoder,"
            " or leave it out of training.",
        )


def _check_rows(training: Sequence[FeatureTable], testing: Sequence[FeatureTable]) -> None:
    """Compare the rows of tables of one encoder."""
    dtype = _common_dtype([*training, *testing])
    tables = {digest: train for train in training for _, digest in _digests(train, dtype)}
    for test in testing:
        digests = _digests(test, dtype)
        shared = [(row, tables[digest]) for row, digest in digests if digest in tables]
        if shared:
            names = dict.fromkeys(train.full_name for _, train in shared)
            raise Leakage(
                f"the test table {test.full_name} has rows of the training tables"
                f" {', '.join(names)}",
                got=f"{len(shared)} rows with equal features: {some([row for row, _ in shared])}",
                allowed="no row in both",
                remedy="Leave them out of training with `drop_shared_rows(training, testing)`.",
            )


def _without(table: FeatureTable, removed: set[bytes], dtype: np.dtype[Any]) -> FeatureTable:
    """Return a table without the rows that have one of these hashes."""
    shared = [row for row, digest in _digests(table, dtype) if digest in removed]
    if not shared:
        return table
    class_indices = table.class_indices.copy()
    class_indices[shared] = -1
    return table.subset(class_indices, table.class_names)


def _key(seed: int, data_set: str, class_name: str) -> float:
    return float(torch.rand((), generator=stream(seed, "class split", data_set, class_name)))


def _digests(table: FeatureTable, dtype: np.dtype[Any]) -> Iterator[tuple[int, bytes]]:
    """Yield the index of each row with a hash of its features in the given dtype."""
    rows = np.flatnonzero(table.class_indices >= 0)
    for start in range(0, len(rows), CHUNK_ROWS):
        chosen = rows[start : start + CHUNK_ROWS]
        chunk = table.features[chosen].astype(dtype) + dtype.type(0)  # -0 becomes 0
        for row, features in zip(chosen, chunk, strict=True):
            yield int(row), hashlib.blake2b(features.tobytes(), digest_size=16).digest()


def _common_dtype(tables: Sequence[FeatureTable]) -> np.dtype[Any]:
    """Return the coarsest dtype; in it, copies of a row in several dtypes are equal again."""
    return min((table.features.dtype for table in tables), key=lambda dtype: dtype.itemsize)
