"""Feature banks from files of 8-bit coded features.

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
"""Of the classes of rows, or of their names: a small archive can stand for far more."""
MAX_SCALE = float(np.finfo(np.float16).max)
REMEDY = "Fetch or export the file again, or leave it out."


class Coding(StrEnum):
    """How a feature x became a code q of 8 bits."""

    SQRT = "sqrt"
    """x = (q / 255)² scale, with q from 0 to 255: for features that are never negative."""
    LINEAR = "linear"
    """x = q / 127 scale, with q from -127 to 127."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the codes."""
        return np.dtype(np.uint8 if self is Coding.SQRT else np.int8)

    def decode(self, codes: NDArray[Any], scale: float) -> NDArray[Any]:
        """Turn codes back into features."""
        values = codes.astype(np.float32)
        if self is Coding.SQRT:
            return (values / 255) ** 2 * scale
        return values / 127 * scale


@dataclass(frozen=True, kw_only=True, eq=False)
class CodedBank:
    """A file of 8-bit coded features that passed all checks; the codes are still in the file."""

    path: Path
    """The .npz file."""
    code: Coding
    """How features were coded."""
    scale: float
    """The largest size of a feature."""
    header: NpyHeader
    """Type and shape of the codes."""
    class_indices: NDArray[np.int64]
    """The class of each row."""
    class_names: tuple[str, ...]
    """The name of each class."""

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Check the archive and read all but the codes."""
        path = Path(path)
        try:
            members, header = _read_archive(path)
        except Exception as error:  # decoders of archives and headers raise anything
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
        """Decode the rows from `start` on, some at a time: features (n, d_T) and classes (n,)."""
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
    """Turn a file of 8-bit coded features into the bank `folder`, and open it.

    The data set is called like the file, and the encoder like the folder that the file is in,
    unless they are given. An interrupted import goes on where it stopped, and a bank that was
    already imported from the same file with the same arguments is only opened.
    """
    npz_path, folder = Path(npz_path), Path(folder)
    maker, data_set = default_names(npz_path)
    coded = CodedBank.open(npz_path)
    rows, width = coded.header.shape
    manifest = BankManifest(
        name=data_set if name is None else name,
        encoder=maker if encoder is None else encoder,
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
    """Tell encoder and data set from where a file is: ENCODER/DATASET.npz."""
    return npz_path.absolute().parent.name, npz_path.stem


def _read_archive(path: Path) -> tuple[dict[str, NDArray[Any]], NpyHeader]:
    """Read all but the codes, and the header of the codes; `ValueError` if something is amiss."""
    with zipfile.ZipFile(path) as archive:
        missing = [key for key in KEYS if f"{key}.npy" not in archive.namelist()]
        if missing:
            raise ValueError(f"no {', '.join(missing)} in the archive")
        # All of it now: once rows are written, a broken archive would leave half a bank behind.
        if (broken := archive.testzip()) is not None:
            raise ValueError(f"{broken} is damaged")
        with archive.open("q.npy") as file:
            header = NpyHeader.read(file)
        if archive.getinfo("q.npy").file_size != header.file_bytes:
            raise ValueError("q has more or fewer numbers than it should")
        members = {key: _read_member(archive, f"{key}.npy") for key in KEYS if key != "q"}
    return members, header


def _read_member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read a whole array, whose size is compared with the file's before memory is taken for it."""
    size = archive.getinfo(name).file_size
    if size > MAX_MEMBER_BYTES:
        raise ValueError(f"{name} has {size:,} bytes, more than {MAX_MEMBER_BYTES:,}")
    content = io.BytesIO(archive.read(name))
    header = NpyHeader.read(content)
    if size != header.file_bytes:
        raise ValueError(f"{name} has more or fewer numbers than it should")
    content.seek(0)
    array: NDArray[Any] = np.lib.format.read_array(content)
    return array


def _check_members(path: Path, members: dict[str, NDArray[Any]], header: NpyHeader) -> None:
    """Refuse an archive whose arrays are not those of 8-bit coded features."""
    for valid, key, got, allowed in _demands(header, **members):
        if not valid:
            raise InvalidBank(
                f"{key} in {path} is not that of a coded bank",
                got=got,
                allowed=allowed,
                remedy=REMEDY,
            )


def _demands(
    q: NpyHeader,
    *,
    code: NDArray[Any],
    scale: NDArray[Any],
    y: NDArray[Any],
    classes: NDArray[Any],
) -> Iterator[tuple[bool, str, object, str]]:
    """List what the arrays must fulfil: whether they do, which one, got, allowed.

    A generator, since each demand may be put only where the ones before it are met.
    """
    yield str(code) in tuple(Coding), "code", repr(str(code)), ", ".join(Coding)
    dtype = Coding(str(code)).dtype
    yield q.dtype == dtype, "q", q.dtype, f"{dtype} with the coding {code}"
    valid = len(q.shape) == 2 and 0 not in q.shape
    yield valid, "q", f"shape {q.shape}", "(rows, width), of 1 or more each"
    yield _fits(scale), "scale", scale, f"one number above 0, up to {MAX_SCALE:g}"
    valid = y.shape == q.shape[:1] and y.dtype.kind in "iu"
    yield valid, "y", f"{y.dtype} of shape {y.shape}", f"integers of shape {q.shape[:1]}"
    valid = classes.ndim == 1 and classes.dtype.kind == "U"
    yield valid, "classes", f"{classes.dtype} of shape {classes.shape}", "a list of names"
    valid = y.min() >= 0 and y.max() < len(classes)
    yield valid, "y", f"values from {y.min()} to {y.max()}", f"0 to {len(classes) - 1}"


def _fits(scale: NDArray[Any]) -> bool:
    """Whether all features up to the scale are numbers of the dtype that they are stored as."""
    return scale.shape == () and scale.dtype.kind in "fiu" and 0 < float(scale) <= MAX_SCALE
