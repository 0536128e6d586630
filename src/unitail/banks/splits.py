"""Splitting tables by class, and proof that two tables share nothing."""

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
    """Split a table by class: what is trained on, and what is held out.

    `held_out` is a number of classes or, as a float, a share of them. Each class has a random key
    of its own and those with the smallest are held out. As neither the encoder nor the order of the
    classes matters, tables of the same data set are split alike.
    """
    names = table.class_names
    count = held_out if isinstance(held_out, int) else round(held_out * len(names))
    if not 2 <= count <= len(names) - 2:
        raise UserError(
            f"the classes of {table.full_name} cannot be split so",
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
    """Return the training tables without the rows that test tables of their encoder hold too."""
    cleaned: dict[int, FeatureTable] = {}
    for encoder in dict.fromkeys(table.encoder for table in training):
        alike = [test for test in testing if test.encoder == encoder]
        own = {number: table for number, table in enumerate(training) if table.encoder == encoder}
        dtype = _common_dtype([*own.values(), *alike])
        known = {digest for test in alike for _, digest in _digests(test, dtype)}
        for number, table in own.items():
            cleaned[number] = _without(table, known, dtype) if known else table
    return [cleaned[number] for number in range(len(training))]


def check_disjoint(training: Sequence[FeatureTable], testing: Sequence[FeatureTable]) -> None:
    """Refuse test tables with a class or a row that training has too.

    A class is known by the data set's name and its own, whatever the encoder; a row by its
    features, so only tables of the same encoder can be compared.
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
    known = set(train.class_names) if train.name == test.name else set()
    shared = [name for name in test.class_names if name in known]
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
    home = {digest: train for train in training for _, digest in _digests(train, dtype)}
    for test in testing:
        shared = [(row, home[digest]) for row, digest in _digests(test, dtype) if digest in home]
        if shared:
            tables = dict.fromkeys(train.full_name for _, train in shared)
            raise Leakage(
                f"the test table {test.full_name} has rows of the training tables"
                f" {', '.join(tables)}",
                got=f"{len(shared)} rows with equal features: {some([row for row, _ in shared])}",
                allowed="no row in both",
                remedy="Leave them out of training with `drop_shared_rows(training, testing)`.",
            )


def _without(table: FeatureTable, known: set[bytes], dtype: np.dtype[Any]) -> FeatureTable:
    """Return a table without its rows of known hashes."""
    shared = [row for row, digest in _digests(table, dtype) if digest in known]
    if not shared:
        return table
    class_indices = table.class_indices.copy()
    class_indices[shared] = -1
    return table.subset(class_indices, table.class_names)


def _key(seed: int, data_set: str, class_name: str) -> float:
    return float(torch.rand((), generator=stream(seed, "class split", data_set, class_name)))


def _digests(table: FeatureTable, dtype: np.dtype[Any]) -> Iterator[tuple[int, bytes]]:
    """Give each row of a table with a hash of its features as numbers of one dtype."""
    rows = np.flatnonzero(table.class_indices >= 0)
    for start in range(0, len(rows), CHUNK_ROWS):
        chosen = rows[start : start + CHUNK_ROWS]
        chunk = table.features[chosen].astype(dtype) + dtype.type(0)  # -0 becomes 0
        for row, features in zip(chosen, chunk, strict=True):
            yield int(row), hashlib.blake2b(features.tobytes(), digest_size=16).digest()


def _common_dtype(tables: Sequence[FeatureTable]) -> np.dtype[Any]:
    """Return the coarsest dtype, in which rows that were once equal are equal again."""
    return min((table.features.dtype for table in tables), key=lambda each: each.itemsize)
