from pathlib import Path

import numpy as np
import pytest

from unitail.banks.npy_file import GrowingArray, expect_random_reads, map_array, read_header
from unitail.errors import InvalidBank


def test_a_growing_array_is_an_ordinary_one_in_the_end(tmp_path: Path) -> None:
    path, rows = tmp_path / "rows.npy", np.arange(12, dtype=np.float32).reshape(4, 3)
    growing = GrowingArray(path, rows.dtype, rows.shape)
    growing.keep(0)
    growing.write(rows[:3] + 1, at=0)  # as if interrupted and begun anew
    growing.write(rows[:2], at=0)
    growing.write(rows[2:], at=2)
    growing.sync()
    growing.close()

    assert np.array_equal(np.load(path), rows)
    assert np.array_equal(map_array(path, rows.dtype, rows.shape), rows)
    np.save(tmp_path / "numpy.npy", rows)
    assert path.read_bytes() == (tmp_path / "numpy.npy").read_bytes()


def test_only_the_rows_to_keep_are_kept(tmp_path: Path) -> None:
    path, rows = tmp_path / "rows.npy", np.arange(4)
    np.save(path, rows)
    growing = GrowingArray(path, rows.dtype, rows.shape)
    growing.keep(3)
    size = path.stat().st_size
    growing.close()

    header = read_header(path)
    assert (header.dtype, header.shape) == (rows.dtype, (4,))
    assert size == header.file_bytes - rows.itemsize


def test_an_array_of_another_shape_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, np.arange(9))
    growing = GrowingArray(path, np.dtype(np.int64), (4,))
    with pytest.raises(InvalidBank, match=r"rows.npy lost rows that were recorded as written"):
        growing.keep(3)
    growing.close()


def test_python_objects_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.array([{}, None]))
    with pytest.raises(InvalidBank, match=r"cannot be read: got ValueError: Python objects"):
        read_header(tmp_path / "rows.npy")


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells")
def test_the_system_is_advised_of_random_reads(tmp_path: Path) -> None:
    """Linux marks such a mapping with the flag rr."""
    np.save(tmp_path / "rows.npy", np.zeros((4, 3), np.float32))
    rows = map_array(tmp_path / "rows.npy", np.dtype(np.float32), (4, 3))
    assert "rr" not in _flags(tmp_path / "rows.npy")
    expect_random_reads(rows)
    assert "rr" in _flags(tmp_path / "rows.npy")
    expect_random_reads(np.zeros(3))  # nothing is mapped, nothing to do


def _flags(path: Path) -> list[str]:
    """Read the flags of a mapped file."""
    text = Path("/proc/self/smaps").read_text()
    own = text[text.index(str(path)) :]
    return own[own.index("VmFlags:") :].splitlines()[0].split()[1:]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("{'descr': '<f4', 'shape': (", "got ValueError: an invalid header"),
        ("{[]: 1}", "got ValueError: an invalid header"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -2)}", r"the shape \(-2, -2\)"),
    ],
)
def test_a_header_that_makes_no_sense_is_reported(
    tmp_path: Path, header: str, message: str
) -> None:
    path, text = tmp_path / "rows.npy", header.encode() + b"\n"
    path.write_bytes(b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(16))
    with pytest.raises(InvalidBank, match=message):
        read_header(path)
