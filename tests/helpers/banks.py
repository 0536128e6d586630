"""Small feature banks for tests."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.banks.bank import FeatureBank
from unitail.banks.manifest import BankManifest
from unitail.banks.writer import BankWriter

NAMES = ("ant", "bee", "cow")
SIZES, WIDTH, ROWS = (30, 20, 40), 16, 90
"""Of the bank that tests write in chunks."""


def rows_of(sizes: tuple[int, ...], width: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return random features, and classes of these sizes in a shuffled order."""
    generator = np.random.default_rng(0)
    indices = generator.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return generator.normal(size=(len(indices), width)).astype(np.float32), indices


def manifest_of(rows: int, width: int, **changes: object) -> BankManifest:
    """Return a manifest for that many rows."""
    facts = {"name": "animals", "encoder": "toy", "rows": rows, "feature_dim": width, **changes}
    return BankManifest(**facts)


def write_bank(
    folder: Path, sizes: tuple[int, ...] = (4, 3, 5), width: int = 6, **changes: object
) -> FeatureBank:
    """Write a bank with classes of these sizes, and open it."""
    features, indices = rows_of(sizes, width)
    manifest = manifest_of(len(features), width, **changes)
    with BankWriter(folder, manifest, NAMES[: len(sizes)]) as writer:
        writer.append(features, indices)
    return FeatureBank.open(folder)


def bank_writer(folder: Path, names: tuple[str, ...] = NAMES, **changes: object) -> BankWriter:
    """Return a writer that records every chunk."""
    return BankWriter(folder, manifest_of(ROWS, WIDTH, **changes), names, record_seconds=0)


def write_rest(folder: Path, step: int = 30) -> int:
    """Write the bank or the rest of it, and tell where it went on."""
    features, indices = rows_of(SIZES, WIDTH)
    with bank_writer(folder) as writer:
        begun = writer.rows_written
        for start in range(begun, ROWS, step):
            writer.append(features[start : start + step], indices[start : start + step])
    return begun


def stop_after(folder: Path, rows: int) -> None:
    """Leave an unfinished bank behind."""
    features, indices = rows_of(SIZES, WIDTH)
    with suppress(KeyboardInterrupt), bank_writer(folder) as writer:
        writer.append(features[:rows], indices[:rows])
        raise KeyboardInterrupt


def contents(folder: Path) -> dict[str, bytes]:
    """Read all files of a bank."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
