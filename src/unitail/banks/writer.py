"""Write a feature bank in chunks, so that an interruption loses little work.

Rows go to a hidden folder next to the final one. Every few seconds they are flushed to the disk,
and only then is their number recorded; after an interruption the rows beyond that number are
dropped and written again. The folder gets its final name when it is complete, so no half-written
bank is ever opened.
"""

import errno
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unitail.banks.manifest import (
    CLASSES_FILE,
    FEATURES_FILE,
    LABELS_FILE,
    MANIFEST_FILE,
    BankManifest,
    check_same,
    checked_names,
    describe,
)
from unitail.banks.npy_file import GrowingArray
from unitail.configuration import parse_json, to_table
from unitail.errors import CannotWrite, InvalidBank
from unitail.files import flush, lock, sha256_of, write_json

PROGRESS_FILE = "progress.json"
RECORD_SECONDS = 5.0
"""Time between two records of the progress, the most that an interruption can lose."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class BankWriter:
    """Writes the bank that `manifest` describes, to `folder`.

        with BankWriter(folder, manifest, class_names) as writer:
            for features, class_indices in encode(rows[writer.rows_written :]):
                writer.append(features, class_indices)

    After an interruption the same call continues at `rows_written`. Leaving the block with all rows
    written completes the bank; leaving it earlier keeps the rows for the next call.
    """

    def __init__(
        self,
        folder: Path | str,
        manifest: BankManifest,
        class_names: Sequence[str],
        *,
        record_seconds: float = RECORD_SECONDS,
    ) -> None:
        self.folder = Path(folder)
        self.manifest = manifest
        self.class_names = checked_names(class_names, f"the bank {folder}")
        self.rows_written = 0
        self._recorded = 0
        self._recorded_at = 0.0
        self._record_seconds = record_seconds
        self._files: tuple[GrowingArray, GrowingArray] | None = None

    @property
    def unfinished(self) -> Path:
        """Folder of the bank until it is complete."""
        final = self.folder.absolute()
        return final.with_name(f".{final.name}.part")

    def __enter__(self) -> Self:
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise InvalidBank(
                f"{self.folder} cannot take a new bank",
                got="an existing file or folder",
                allowed="a new or empty folder",
                remedy="Delete it, or name another folder.",
            )
        try:
            with self._disk_errors():
                self._open()
        except BaseException:
            self._close()
            raise
        return self

    def append(self, features: ArrayLike, class_indices: ArrayLike) -> None:
        """Write the next rows: features (n, d_T) and their classes (n,)."""
        if self._files is None:
            raise InvalidBank(
                f"the writer of {self.folder} is closed",
                got="rows",
                allowed="rows inside its `with` block, up to the first error",
            )
        rows = self._checked_features(np.asarray(features))
        indices = self._checked_indices(np.asarray(class_indices), len(rows))
        with self._disk_errors():
            self._files[0].write(rows, at=self.rows_written)
            self._files[1].write(indices, at=self.rows_written)
            self.rows_written += len(rows)
            if time.monotonic() - self._recorded_at >= self._record_seconds:
                self._record()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._files is None:  # after a disk error, rows since the last record may be lost
            return
        try:
            with self._disk_errors():
                self._record()
                if error is None and self.rows_written == self.manifest.rows:
                    self._complete()
        finally:
            self._close()
        if error is None and self.rows_written < self.manifest.rows:
            raise InvalidBank(
                f"the bank {self.folder} is not complete",
                got=f"{self.rows_written} rows",
                allowed=f"the {self.manifest.rows} rows of its manifest",
                remedy=f"Write again with the same arguments, from row {self.rows_written} on.",
            )

    def _open(self) -> None:
        """Open the files and drop all rows after the last recorded one."""
        folder, width = self.unfinished, self.manifest.feature_dim
        folder.mkdir(parents=True, exist_ok=True)
        features = GrowingArray(
            folder / FEATURES_FILE, np.dtype(self.manifest.dtype), (self.manifest.rows, width)
        )
        labels = GrowingArray(folder / LABELS_FILE, np.dtype(np.int64), (self.manifest.rows,))
        self._files = (features, labels)
        lock(folder / FEATURES_FILE, features.fileno())
        self.rows_written = self._recorded = self._read_progress()
        for file in self._files:
            file.keep(self.rows_written)
        self._record()

    def _read_progress(self) -> int:
        """Return the recorded number of rows; an unfinished bank of other data is an error."""
        path = self.unfinished / PROGRESS_FILE
        remedy = f"Use the arguments it was begun with, or delete {path.parent} to start again."
        if not path.exists():
            return 0
        try:
            table = parse_json(path.read_text(encoding="utf-8"))
            stored, rows = dict(table["bank"]), int(table["rows_written"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidBank(
                f"{path} cannot be read",
                got=f"{type(error).__name__}: {error}",
                allowed="the progress that the writer recorded",
                remedy=remedy,
            ) from error
        wanted = describe(self.manifest, self.class_names)
        check_same(stored, wanted, f"the unfinished bank {path.parent}", remedy)
        return rows

    def _record(self) -> None:
        """Flush the rows to the disk, then record their number."""
        assert self._files is not None
        for file in self._files:
            file.sync()
        bank = describe(self.manifest, self.class_names)
        table = {"rows_written": self.rows_written, "bank": bank}
        write_json(self.unfinished / PROGRESS_FILE, table)
        self._recorded, self._recorded_at = self.rows_written, time.monotonic()

    def _complete(self) -> None:
        """Write class names and manifest, then rename the folder to its final name."""
        folder = self.unfinished
        write_json(folder / CLASSES_FILE, list(self.class_names))
        manifest = replace(
            self.manifest,
            labels_sha256=sha256_of(folder / LABELS_FILE),
            features_sha256=sha256_of(folder / FEATURES_FILE),
        )
        write_json(folder / MANIFEST_FILE, to_table(manifest))
        flush(folder)
        self._close()
        os.rename(folder, self.folder)
        # Removed last: without it, an interruption before the renaming would start from scratch.
        (self.folder / PROGRESS_FILE).unlink()
        flush(self.folder.absolute().parent)

    def _close(self) -> None:
        for file in self._files or ():
            file.close()
        self._files = None

    def _checked_features(self, features: NDArray[Any]) -> NDArray[Any]:
        """Convert rows to the dtype of the bank; a wrong shape or overflow is an error."""
        width = self.manifest.feature_dim
        if features.dtype.kind != "f" or features.ndim != 2 or features.shape[1] != width:
            raise InvalidBank(
                f"features do not fit the bank {self.folder}",
                got=f"{features.dtype} of shape {features.shape}",
                allowed=f"floating-point numbers of shape (rows, {width})",
                remedy="Correct the array.",
            )
        if self.rows_written + len(features) > self.manifest.rows:
            raise InvalidBank(
                f"too many rows for the bank {self.folder}",
                got=f"{self.rows_written + len(features)}",
                allowed=f"the {self.manifest.rows} rows of its manifest",
                remedy="Continue from `rows_written`, or correct the manifest.",
            )
        with np.errstate(over="ignore"):  # overflow is an error below
            rows = features.astype(self.manifest.dtype)
        num_non_finite = int(np.count_nonzero(~np.isfinite(rows)))
        if num_non_finite:
            raise InvalidBank(
                f"features for the bank {self.folder} are not finite as {self.manifest.dtype}",
                got=f"{num_non_finite} values",
                allowed="finite numbers",
                remedy="Leave the rows out, scale the features down, or store them as float32.",
            )
        return rows

    def _checked_indices(self, indices: NDArray[Any], rows: int) -> NDArray[np.int64]:
        """Return class indices as int64; one per row is needed, each with a class name."""
        if indices.shape != (rows,) or indices.dtype.kind not in "iu":
            raise InvalidBank(
                f"class indices do not fit the features for the bank {self.folder}",
                got=f"{indices.dtype} of shape {indices.shape}",
                allowed=f"integers of shape ({rows},)",
                remedy="Correct the array.",
            )
        classes = len(self.class_names)
        if rows and not (indices.min() >= 0 and indices.max() < classes):
            raise InvalidBank(
                f"class indices for the bank {self.folder} have no class name",
                got=f"values from {indices.min()} to {indices.max()}",
                allowed=f"0 to {classes - 1}, with {classes} class names",
                remedy="Name the class, or correct the index.",
            )
        return indices.astype(np.int64)

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """Close the files after a disk error, and raise `CannotWrite` with the number of safe rows.

        Nothing is recorded after such an error: a second fsync may succeed although data were lost.
        """
        try:
            yield
        except OSError as error:
            self._close()
            missing = self.manifest.rows - self._recorded
            size = np.dtype(self.manifest.dtype).itemsize * self.manifest.feature_dim * missing
            full = error.errno in FULL
            raise CannotWrite(
                "the disk is full" if full else f"{self.unfinished} could not be written",
                got=f"{error}; {self._recorded} of {self.manifest.rows} rows are safe",
                allowed=f"about {size / 1e6:.1f} MB more" if full else "a folder to write to",
                remedy=("Free some space" if full else "Fix the cause")
                + " and run again with the same arguments; it continues after the safe rows.",
            ) from error
