"""Feature banks: the rows of a data set, encoded once, in a folder.

`features.npy` and `labels.npy` hold the rows, `classes.json` the class names, and `manifest.json`
the encoder and the hashes of the files. Features are memory-mapped, so opening a bank is cheap and
processes share them.
"""

import hashlib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unitail.banks.manifest import (
    FEATURES_FILE,
    LABELS_FILE,
    MANIFEST_FILE,
    BankManifest,
    check_same,
    describe,
    read_classes,
    read_manifest,
)
from unitail.banks.npy_file import map_array, read_header
from unitail.banks.table import CHUNK_ROWS, FeatureTable
from unitail.encoder_names import encoder_name
from unitail.errors import InvalidBank
from unitail.progress import OnProgress


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureBank(FeatureTable):
    """The encoded rows of one data set, with their classes, in a folder."""

    folder: Path
    """Folder of the bank."""
    manifest: BankManifest
    """Origin, shape and hashes of the bank."""

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open a bank and check everything except the features' values; for those see `verify`."""
        folder = Path(folder)
        manifest = read_manifest(folder)
        class_names = read_classes(folder)
        shape = (manifest.rows, manifest.feature_dim)
        return cls(
            folder=folder,
            manifest=manifest,
            name=manifest.name,
            encoder=manifest.encoder,
            features=map_array(folder / FEATURES_FILE, np.dtype(manifest.dtype), shape),
            class_indices=_read_labels(folder / LABELS_FILE, manifest, len(class_names)),
            class_names=class_names,
        )

    @classmethod
    def open_same(
        cls, folder: Path, manifest: BankManifest, class_names: tuple[str, ...], remedy: str
    ) -> Self | None:
        """Open an existing bank if it was made from the same rows in the same way.

        Returns None if the folder does not exist or is empty; another bank is an error.
        """
        if not folder.is_dir() or not any(folder.iterdir()):
            return None
        bank = cls.open(folder)
        stored, wanted = describe(bank.manifest, bank.class_names), describe(manifest, class_names)
        check_same(stored, wanted, f"the bank {folder}", remedy)
        return bank

    @property
    def num_rows(self) -> int:
        """Number of examples."""
        return self.manifest.rows

    @property
    def fingerprint(self) -> str:
        """Changes whenever the features or the labels do."""
        return f"{self.manifest.features_sha256} {self.manifest.labels_sha256}"

    def verify(self, on_progress: OnProgress | None = None) -> None:
        """Read all features; raise an error if they changed since writing or are not finite."""
        path = self.folder / FEATURES_FILE
        header = read_header(path)
        with path.open("rb") as file:
            digest = hashlib.sha256(file.read(header.offset))
        num_non_finite = 0
        for start in range(0, self.num_rows, CHUNK_ROWS):
            chunk = self.features[start : start + CHUNK_ROWS]
            digest.update(chunk.data)
            num_non_finite += int(np.count_nonzero(~np.isfinite(chunk)))
            if on_progress is not None:
                on_progress(start + len(chunk), self.num_rows)
        _check_hash(path, digest.hexdigest(), self.manifest.features_sha256)
        if num_non_finite:
            raise InvalidBank(
                f"features of {self.folder} are not finite",
                got=f"{num_non_finite} NaN or infinite values of {self.features.size}",
                allowed="finite numbers",
                remedy="Encode the data again without these rows.",
            )


def find_banks(root: Path | str) -> list[Path]:
    """Return the folders of all banks in `root`, or `root` if it is a bank, sorted by name."""
    return _find_banks(Path(root), set())


def _find_banks(root: Path, visited: set[Path]) -> list[Path]:
    """Search recursively; each real folder is visited once, as links may form a cycle."""
    if (root / MANIFEST_FILE).is_file():
        return [root]
    if not root.is_dir():
        raise InvalidBank(
            f"{root} is not a folder",
            got="a file" if root.exists() else "no such folder",
            allowed="a folder that holds banks",
            remedy="Name another folder, or make banks with `unitail bank import`.",
        )
    visited.add(root.resolve())
    # Hidden folders are skipped: unfinished banks are hidden.
    folders = sorted(
        path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")
    )
    new = [folder for folder in folders if folder.resolve() not in visited]
    return [bank for folder in new for bank in _find_banks(folder, visited)]


def named_banks(root: Path | str) -> dict[str, Path]:
    """Return the folders of all banks in `root` by name ENCODER/DATASET, sorted by name."""
    paths: dict[str, Path] = {}
    by_name: dict[str, Path] = {}
    for path in find_banks(root):
        manifest = read_manifest(path)
        name = f"{manifest.encoder}/{manifest.name}"
        other = by_name.setdefault(_normalised(name), path)
        if other != path:
            raise InvalidBank(
                f"two banks in {root} are called {name}",
                got=f"{other} and {path}",
                allowed="one bank for each data set and encoder",
                remedy="Move one of them elsewhere.",
            )
        paths[name] = path
    return dict(sorted(paths.items()))


def bank_matches(name: str, pattern: str) -> bool:
    """Return whether ENCODER/DATASET matches a glob pattern; aliases of an encoder are equal."""
    return fnmatch(_normalised(name), _normalised(pattern))


def _normalised(name: str) -> str:
    """Return ENCODER/DATASET with the registered name of the encoder."""
    encoder, slash, data_set = name.partition("/")
    return f"{encoder_name(encoder)}{slash}{data_set}"


def _read_labels(path: Path, manifest: BankManifest, num_classes: int) -> NDArray[np.int64]:
    """Read the class indices, and check their hash and that each has a class name."""
    mapped = map_array(path, np.dtype(np.int64), (manifest.rows,))
    _check_hash(path, hashlib.sha256(path.read_bytes()).hexdigest(), manifest.labels_sha256)
    labels: NDArray[np.int64] = np.array(mapped)
    labels.setflags(write=False)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_classes:
        raise InvalidBank(
            f"labels in {path} have no class name",
            got=f"labels from {low} to {high}",
            allowed=f"0 to {num_classes - 1}, with {num_classes} class names",
        )
    return labels


def _check_hash(path: Path, got: str, allowed: str) -> None:
    if got != allowed:
        raise InvalidBank(
            f"{path} changed since the bank was written",
            got=f"sha256 {got[:12] or 'none'}",
            allowed=f"{allowed[:12] or 'none'} as in {MANIFEST_FILE}",
            remedy="Copy or make the bank again.",
        )
