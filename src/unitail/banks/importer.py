"""Import feature banks from files of 8-bit coded features.

Such a file is an .npz archive: codes `q` (rows, d_T), their `scale` and `code`, the class `y` of
each row and the names of the `classes`.
"""

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unitail.banks.bank import FeatureBank
from unitail.banks.manifest import BankManifest, checked_names
from unitail.banks.npy_file import NpyHeader
from unitail.banks.table import CHUNK_ROWS
from unitail.banks.writer import BankWriter
from unitail.errors import InvalidBank
from unitail.files import sha256_of
from unitail.progress import OnProgress

KEYS = ("q", "scale", "code", "y", "classes")
MAX_MEMBER_BYTES = 2**29
"""Largest size of the class indices, or of their names: a small archive can unpack to far more."""
MAX_SCALE = float(np.finfo(np.float16).max)
REMEDY = "Fetch or export the file again, or leave it out."


class Coding(StrEnum):
    """The mapping from a feature x to an 8-bit code q."""

    SQRT = "sqrt"
    """x = (q / 255)² scale, with q from 0 to 255: for non-negative features."""
    LINEAR = "linear"
    """x = q / 127 scale, with q from -127 to 127."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the codes."""
        return np.dtype(np.uint8 if self is Coding.SQRT else np.int8)

    def decode(self, codes: NDArray[Any], scale: float) -> NDArray[Any]:
        """Return the features for these codes."""
        values = codes.astype(np.float32)
        if self is Coding.SQRT:
            return (values / 255) ** 2 * scale
        return values / 127 * scale


@dataclass(frozen=True, kw_only=True, eq=False)
class CodedBank:
    """A checked file of 8-bit coded features; the codes are read from the file on demand."""

    path: Path
    """Path of the .npz file."""
    code: Coding
    """Coding of the features."""
    scale: float
    """Largest absolute value of a feature."""
    header: NpyHeader
    """Dtype and shape of the codes."""
    class_indices: NDArray[np.int64]
    """Class of each row."""
    class_names: tuple[str, ...]
    """Name of each class."""

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Check the archive and read everything but the codes."""
        path = Path(path)
        try:
            members, header = _read_archive(path)
        except Exception as error:  # decoders raise errors of any type on broken archives
            raise InvalidBank(
                f"{path} cannot be read",
                got=f"{type(error).__name__}: {error}",
                allowed=f"an .npz file with {', '.join(KEYS)}",
                remedy=REMEDY,
            ) from error
        _check_members(path, members, header)
        return cls(
            path=path,
            code=Coding(str(members["code"])),
            scale=float(members["scale"]),
            header=header,
            class_indices=members["y"].astype(np.int64),
            class_names=checked_names([str(name) for name in members["classes"]], str(path)),
        )

    def chunks(self, start: int = 0) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
        """Yield chunks of the rows from `start` on: features (n, d_T) and classes (n,)."""
        rows, width = self.header.shape
        with zipfile.ZipFile(self.path) as archive, archive.open("q.npy") as file:
            file.seek(self.header.offset + start * width)
            for first in range(start, rows, CHUNK_ROWS):
                count = min(CHUNK_ROWS, rows - first)
                codes = np.frombuffer(file.read(count * width), dtype=self.header.dtype)
                features = self.code.decode(codes.reshape(count, width), self.scale)
                yield features, self.class_indices[first : first + count]


def import_bank(
    npz_path: Path | str,
    folder: Path | str,
    *,
    encoder: str | None = None,
    name: str | None = None,
    encoder_revision: str = "",
    preprocessing: str = "",
    licence: str = "",
    on_progress: OnProgress | None = None,
) -> FeatureBank:
    """Convert a file of 8-bit coded features to a bank in `folder`, and open it.

    By default the data set is named after the file, and the encoder after the file's folder. An
    interrupted import continues where it stopped. A bank that was already imported from the same
    file with the same arguments is only opened.
    """
    npz_path, folder = Path(npz_path), Path(folder)
    default_encoder, default_name = default_names(npz_path)
    coded = CodedBank.open(npz_path)
    rows, width = coded.header.shape
    manifest = BankManifest(
        name=default_name if name is None else name,
        encoder=default_encoder if encoder is None else encoder,
        encoder_revision=encoder_revision,
        preprocessing=preprocessing,
        source=f"{npz_path.name}, 8 bits, coding {coded.code}, sha256 {sha256_of(npz_path)}",
        licence=licence,
        rows=rows,
        feature_dim=width,
    )
    remedy = "Delete it to import again, or name another folder."
    bank = FeatureBank.open_same(folder, manifest, coded.class_names, remedy)
    if bank is not None:
        return bank
    with BankWriter(folder, manifest, coded.class_names) as writer:
        for features, class_indices in coded.chunks(writer.rows_written):
            writer.append(features, class_indices)
            if on_progress is not None:
                on_progress(writer.rows_written, rows)
    return FeatureBank.open(folder)


def default_names(npz_path: Path) -> tuple[str, str]:
    """Return the names of encoder and data set from the path ENCODER/DATASET.npz."""
    return npz_path.absolute().parent.name, npz_path.stem


def _read_archive(path: Path) -> tuple[dict[str, NDArray[Any]], NpyHeader]:
    """Return all arrays but the codes, and the header of the codes; `ValueError` if invalid."""
    with zipfile.ZipFile(path) as archive:
        missing = [key for key in KEYS if f"{key}.npy" not in archive.namelist()]
        if missing:
            raise ValueError(f"no {', '.join(missing)} in the archive")
        # Check everything now: a broken archive would otherwise leave a half-written bank.
        if (broken := archive.testzip()) is not None:
            raise ValueError(f"{broken} is damaged")
        with archive.open("q.npy") as file:
            header = NpyHeader.read(file)
        if archive.getinfo("q.npy").file_size != header.file_bytes:
            raise ValueError("q does not have the size in its header")
        members = {key: _read_member(archive, f"{key}.npy") for key in KEYS if key != "q"}
    return members, header


def _read_member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read a whole array, after comparing its size with the file's before allocating memory."""
    size = archive.getinfo(name).file_size
    if size > MAX_MEMBER_BYTES:
        raise ValueError(f"{name} has {size:,} bytes, more than {MAX_MEMBER_BYTES:,}")
    content = io.BytesIO(archive.read(name))
    header = NpyHeader.read(content)
    if size != header.file_bytes:
        raise ValueError(f"{name} does not have the size in its header")
    content.seek(0)
    array: NDArray[Any] = np.lib.format.read_array(content)
    return array


def _check_members(path: Path, members: dict[str, NDArray[Any]], header: NpyHeader) -> None:
    """Raise an error if the arrays are not those of 8-bit coded features."""
    for valid, key, got, allowed in _requirements(header, **members):
        if not valid:
            raise InvalidBank(
                f"{key} in {path} is not valid in a coded bank",
                got=got,
                allowed=allowed,
                remedy=REMEDY,
            )


def _requirements(
    q: NpyHeader,
    *,
    code: NDArray[Any],
    scale: NDArray[Any],
    y: NDArray[Any],
    classes: NDArray[Any],
) -> Iterator[tuple[bool, str, object, str]]:
    """Yield the requirements of the arrays: whether met, array name, got, allowed.

    A generator, since each requirement can be checked only if all before it are met.
    """
    yield str(code) in tuple(Coding), "code", repr(str(code)), ", ".join(Coding)
    dtype = Coding(str(code)).dtype
    yield q.dtype == dtype, "q", q.dtype, f"{dtype} with the coding {code}"
    valid = len(q.shape) == 2 and 0 not in q.shape
    yield valid, "q", f"shape {q.shape}", "(rows, width), of 1 or more each"
    yield _is_valid_scale(scale), "scale", scale, f"one number above 0, up to {MAX_SCALE:g}"
    valid = y.shape == q.shape[:1] and y.dtype.kind in "iu"
    yield valid, "y", f"{y.dtype} of shape {y.shape}", f"integers of shape {q.shape[:1]}"
    valid = classes.ndim == 1 and classes.dtype.kind == "U"
    yield valid, "classes", f"{classes.dtype} of shape {classes.shape}", "a list of names"
    valid = y.min() >= 0 and y.max() < len(classes)
    yield valid, "y", f"values from {y.min()} to {y.max()}", f"0 to {len(classes) - 1}"


def _is_valid_scale(scale: NDArray[Any]) -> bool:
    """Return whether the dtype of banks can store all features up to the scale."""
    return scale.shape == () and scale.dtype.kind in "fiu" and 0 < float(scale) <= MAX_SCALE
