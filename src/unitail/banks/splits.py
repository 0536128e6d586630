"""Tables of encoded rows, parts of them by class, and proof that two share nothing."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.errors import Leakage, UserError
from unitail.randomness import stream
from unitail.wording import some

ROWS_AT_ONCE = 4096
"""The rows that are in memory at once where all are read."""


class FeatureTable(Protocol):
    """The encoded rows of a data set with their classes: a feature bank, or a part of one."""

    @property
    def name(self) -> str:
        """The data set."""
        ...

    @property
    def encoder(self) -> str:
        """The encoder that made the features."""
        ...

    @property
    def features(self) -> NDArray[Any]:
        """Encoded inputs, (rows, d_T), float16 or float32, perhaps mapped from a file."""
        ...

    @property
    def class_indices(self) -> NDArray[np.int64]:
        """The class of each row, (rows,); -1 where the row does not belong to the table."""
        ...

    @property
    def class_names(self) -> tuple[str, ...]:
        """The name of each class."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class TablePart:
    """Some rows of a table; the features are those of the whole, never copied."""

    name: str
    """The data set."""
    encoder: str
    """The encoder that made the features."""
    features: NDArray[Any]
    """The features of all rows, whether they belong to this part or not."""
    class_indices: NDArray[np.int64]
    """The class of each row; -1 where the row does not belong to this part."""
    class_names: tuple[str, ...]
    """The name of each class of this part."""


def full_name(table: FeatureTable) -> str:
    """Return what messages call a table."""
    return f"{table.encoder}/{table.name}"


def select_classes(table: FeatureTable, names: Sequence[str]) -> TablePart:
    """Return the part of a table that has these classes, numbered in this order."""
    places = {name: index for index, name in enumerate(table.class_names)}
    unknown = [name for name in names if name not in places]
    if unknown or len(set(names)) < len(names) or not names:
        raise UserError(
            f"classes cannot be selected from {full_name(table)}",
            got=f"unknown {some(unknown)}" if unknown else f"{len(names)} names: {some(names)}",
            allowed=f"different names of its classes, such as {some(table.class_names)}",
        )
    renumbered = np.full(len(places) + 1, -1)  # the last place is where -1 leads to
    renumbered[[places[name] for name in names]] = np.arange(len(names))
    return _part(table, renumbered[table.class_indices], tuple(names))


def split_classes(
    table: FeatureTable, held_out: int | float, seed: int
) -> tuple[TablePart, TablePart]:
    """Split a table by class: what is trained on, and what is held out.

    `held_out` is a number of classes or, as a float, a share of them. Each class has a random key
    of its own and those with the smallest are held out. As neither the encoder nor the order of the
    classes matters, tables of the same data set are split alike.
    """
    names = table.class_names
    count = held_out if isinstance(held_out, int) else round(held_out * len(names))
    if not 2 <= count <= len(names) - 2:
        raise UserError(
            f"the classes of {full_name(table)} cannot be split so",
            got=f"held_out={held_out}, {count} of {len(names)} classes",
            allowed="2 or more classes on each side",
        )
    ranked = sorted(names, key=lambda name: _key(seed, table.name, name))
    chosen = set(ranked[:count])
    return (
        select_classes(table, [name for name in names if name not in chosen]),
        select_classes(table, [name for name in names if name in chosen]),
    )


def drop_shared_rows(
    training: Sequence[FeatureTable], testing: Sequence[FeatureTable]
) -> list[FeatureTable]:
    """Return the training tables without the rows that test tables of their encoder hold too."""
    cleaned: dict[int, FeatureTable] = {}
    for encoder in dict.fromkeys(table.encoder for table in training):
        alike = [test for test in testing if test.encoder == encoder]
        own = {number: table for number, table in enumerate(training) if table.encoder == encoder}
        kind = _common_type([*own.values(), *alike])
        known = {digest for test in alike for _, digest in _digests(test, kind)}
        for number, table in own.items():
            cleaned[number] = _without(table, known, kind) if known else table
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
            f"the test table {full_name(test)} has classes of the training table"
            f" {full_name(train)}",
            got=f"{len(shared)} in common: {some(shared)}",
            allowed="no class in both",
            remedy="Split the data set with `split_classes` and the same seed for every encoder,"
            " or leave it out of training.",
        )


def _check_rows(training: Sequence[FeatureTable], testing: Sequence[FeatureTable]) -> None:
    """Compare the rows of tables of one encoder."""
    kind = _common_type([*training, *testing])
    home = {digest: train for train in training for _, digest in _digests(train, kind)}
    for test in testing:
        shared = [(row, home[digest]) for row, digest in _digests(test, kind) if digest in home]
        if shared:
            tables = dict.fromkeys(full_name(train) for _, train in shared)
            raise Leakage(
                f"the test table {full_name(test)} has rows of the training tables"
                f" {', '.join(tables)}",
                got=f"{len(shared)} rows with equal features: {some([row for row, _ in shared])}",
                allowed="no row in both",
                remedy="Leave them out of training with `drop_shared_rows(training, testing)`.",
            )


def _part(
    table: FeatureTable, class_indices: NDArray[np.int64], class_names: tuple[str, ...]
) -> TablePart:
    return TablePart(
        name=table.name,
        encoder=table.encoder,
        features=table.features,
        class_indices=class_indices,
        class_names=class_names,
    )


def _without(table: FeatureTable, known: set[bytes], kind: np.dtype[Any]) -> FeatureTable:
    """Return a table without its rows of known hashes."""
    shared = [row for row, digest in _digests(table, kind) if digest in known]
    if not shared:
        return table
    class_indices = table.class_indices.copy()
    class_indices[shared] = -1
    return _part(table, class_indices, table.class_names)


def _key(seed: int, data_set: str, class_name: str) -> float:
    return float(torch.rand((), generator=stream(seed, "class split", data_set, class_name)))


def _digests(table: FeatureTable, kind: np.dtype[Any]) -> Iterator[tuple[int, bytes]]:
    """Give each row of a table with a hash of its features as numbers of one kind."""
    rows = np.flatnonzero(table.class_indices >= 0)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        chosen = rows[start : start + ROWS_AT_ONCE]
        block = table.features[chosen].astype(kind) + kind.type(0)  # -0 becomes 0
        for row, features in zip(chosen, block, strict=True):
            yield int(row), hashlib.blake2b(features.tobytes(), digest_size=16).digest()


def _common_type(tables: Sequence[FeatureTable]) -> np.dtype[Any]:
    """Return the coarsest type, in which rows that were once equal are equal again."""
    return min((table.features.dtype for table in tables), key=lambda dtype: dtype.itemsize)
