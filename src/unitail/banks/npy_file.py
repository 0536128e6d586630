"""Array files (.npy) that are checked before mapping, and files that grow row by row."""

import io
import math
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from unitail.errors import InvalidBank
from unitail.files import regular

_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


@dataclass(frozen=True)
class NpyHeader:
    """The header of an .npy file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    """Start of the data, in bytes."""

    @classmethod
    def read(cls, file: IO[bytes]) -> Self:
        """Read the header of an open file; `ValueError` if it is invalid or not supported."""
        version = npy.read_magic(file)
        if version not in _READERS:
            raise ValueError(f"version {version} of the .npy format")
        try:
            shape, fortran_order, dtype = _READERS[version](file)
        except Exception as error:  # numpy evaluates the header, which may raise anything
            raise ValueError(f"an invalid header: {error}") from error
        if min(shape, default=0) < 0:
            raise ValueError(f"the shape {shape}")
        if fortran_order or dtype.hasobject:
            raise ValueError("Fortran order" if fortran_order else "Python objects")
        return cls(dtype, shape, file.tell())

    @property
    def file_bytes(self) -> int:
        """Expected size of the whole file, in bytes."""
        return self.offset + self.dtype.itemsize * math.prod(self.shape)


def map_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Memory-map an array file for reading, after checking its dtype, shape and size."""
    header = read_header(path)
    size = path.stat().st_size
    for what, got, allowed in (
        ("does not hold the dtype in the manifest", header.dtype, dtype),
        ("does not hold the shape in the manifest", header.shape, shape),
        ("is truncated or has extra bytes", f"{size} bytes", f"{header.file_bytes} bytes"),
    ):
        if got != allowed:
            raise InvalidBank(
                f"{path} {what}", got=got, allowed=f"{allowed}", remedy="Copy or make it again."
            )
    return np.memmap(path, dtype=dtype, mode="r", offset=header.offset, shape=shape)


def expect_random_reads(array: NDArray[Any]) -> None:
    """Advise the system that a mapped array will be read at random rows.

    Otherwise each row also loads the pages around it, up to all of a large file.
    """
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_RANDOM"):
        mapped.madvise(mmap.MADV_RANDOM)


def read_header(path: Path) -> NpyHeader:
    """Read the header of an array file."""
    try:
        with regular(path).open("rb") as file:
            return NpyHeader.read(file)
    except (OSError, ValueError) as error:
        raise InvalidBank(
            f"{path} cannot be read",
            got=f"{type(error).__name__}: {error}",
            allowed="an .npy file of numbers in C order",
        ) from error


class GrowingArray:
    """An .npy file of a known final shape, whose rows are written in chunks."""

    def __init__(self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._path, self._dtype = path, dtype
        self._row_bytes = dtype.itemsize * math.prod(shape[1:])
        self._header = _header_bytes(dtype, shape)
        # Unbuffered: a buffer that a full disk refused would be written again on closing.
        self._file = io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+")

    def fileno(self) -> int:
        """Return the file descriptor, for locking."""
        return self._file.fileno()

    def keep(self, rows: int) -> None:
        """Truncate to the first `rows` rows; an error if there are fewer."""
        self._file.seek(0)
        size = len(self._header) + rows * self._row_bytes
        if rows == 0:
            self._file.truncate(0)
            self._write(self._header)
        elif self._file.read(len(self._header)) != self._header or self._size() < size:
            raise InvalidBank(
                f"the unfinished {self._path} lost rows that were recorded as written",
                got=f"{self._size()} bytes",
                allowed=f"{size} or more",
                remedy=f"Delete {self._path.parent} and write the bank again.",
            )
        self._file.truncate(size)

    def write(self, rows: NDArray[Any], at: int) -> None:
        """Write rows at index `at`, overwriting what an interrupted call may have left there."""
        self._file.seek(len(self._header) + at * self._row_bytes)
        self._write(np.ascontiguousarray(rows, dtype=self._dtype).tobytes())

    def sync(self) -> None:
        """Flush all rows to the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _write(self, data: bytes) -> None:
        """Write all data; a single call may write only a part."""
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[self._file.write(remaining) :]


def _header_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    description = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(buffer, description)
    return buffer.getvalue()
