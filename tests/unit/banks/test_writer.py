import errno
import io
from pathlib import Path

import numpy as np
import pytest

from helpers.banks import ROWS, SIZES, WIDTH, bank_writer, contents, rows_of, write_rest
from unitail.banks.bank import FeatureBank
from unitail.errors import CannotWrite, InvalidBank


def test_the_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    features, indices = rows_of(SIZES, WIDTH)
    with bank_writer(tmp_path / "bank") as writer:
        writer.append(features, indices)
        assert [path.name for path in tmp_path.iterdir()] == [".bank.part"]
        with pytest.raises(InvalidBank, match="is not a feature bank"):
            FeatureBank.open(tmp_path / ".bank.part")

    assert [path.name for path in tmp_path.iterdir()] == ["bank"]
    names = ["classes.json", "features.npy", "labels.npy", "manifest.json"]
    assert sorted(contents(tmp_path / "bank")) == names


def test_chunks_of_any_size_give_the_same_bank(tmp_path: Path) -> None:
    for step in (90, 30, 7, 1):
        write_rest(tmp_path / str(step), step)
    assert contents(tmp_path / "90") == contents(tmp_path / "7") == contents(tmp_path / "1")
    assert np.load(tmp_path / "7" / "features.npy").shape == (ROWS, WIDTH)


FULL = (
    r"the disk is full: got .*No space left on device; 30 of 90 rows are safe; "
    r"allowed: about 0\.0 MB more\. Free some space and run again with the same arguments"
)


def test_a_full_disk_found_on_syncing_is_reported_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, indices = rows_of(SIZES, WIDTH)

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with bank_writer(tmp_path / "bank") as writer:
        writer.append(features[:30], indices[:30])
        monkeypatch.setattr("os.fsync", fail)
        with pytest.raises(CannotWrite, match=FULL):
            writer.append(features[30:60], indices[30:60])
    monkeypatch.undo()
    _check_continued_at_30(tmp_path)


def test_a_full_disk_found_on_writing_is_reported_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("io.FileIO", _FullDisk)
    monkeypatch.setattr(_FullDisk, "room", 2001)  # the headers, 30 rows, and some of the next
    with pytest.raises(CannotWrite, match=FULL):
        write_rest(tmp_path / "bank")
    assert (tmp_path / ".bank.part" / "features.npy").stat().st_size % (2 * WIDTH) != 0
    monkeypatch.undo()
    _check_continued_at_30(tmp_path)


class _FullDisk(io.FileIO):
    """Takes less than it is offered, as a system may, until there is no room."""

    room = 0

    def write(self, data: memoryview) -> int:
        taken = super().write(data[: min(100, _FullDisk.room)])
        if taken == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        _FullDisk.room -= taken
        return taken


def _check_continued_at_30(folder: Path) -> None:
    assert not (folder / "bank").exists()
    assert write_rest(folder / "bank") == 30
    write_rest(folder / "whole")
    assert contents(folder / "bank") == contents(folder / "whole")


def test_nothing_is_written_after_an_error_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, indices = rows_of(SIZES, WIDTH)

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with bank_writer(tmp_path / "bank") as writer:
        monkeypatch.setattr("os.fsync", fail)
        with pytest.raises(CannotWrite, match=r"could not be written: .*Input/output error; 0 of"):
            writer.append(features, indices)
        monkeypatch.undo()
        with pytest.raises(InvalidBank, match=r"the writer of .* is closed"):
            writer.append(features, indices)
    assert write_rest(tmp_path / "bank") == 0


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match=r"could not be written: got .*Not a directory"):
        write_rest(tmp_path / "file" / "bank")


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    write_rest(tmp_path / "bank")
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for name in ("bank", "file"):
        with pytest.raises(InvalidBank, match="cannot take a new bank: got an existing file"):
            write_rest(tmp_path / name)
    assert write_rest(tmp_path / "empty") == 0


@pytest.mark.parametrize(
    ("features", "indices", "message"),
    [
        (
            np.zeros((2, 15)),
            [0, 1],
            r"features do not fit .*: got float64 of shape \(2, 15\); allo",
        ),
        (np.zeros((2, 16), int), [0, 1], r"got int64 of shape \(2, 16\); allowed: floating-point"),
        (np.zeros((91, 16)), [0] * 91, "too many rows for the bank .*: got 91; allowed: the 90 ro"),
        (np.full((1, 16), np.nan), [0], "are not finite as float16: got 16 values"),
        (np.full((1, 16), 1e5), [0], "are not finite as float16: got 16 values; .* as float32"),
        (
            np.zeros((2, 16)),
            [0],
            r"class indices do not fit .*: got int64 of shape \(1,\); allowed",
        ),
        (np.zeros((2, 16)), [0.0, 1.0], r"got float64 of shape \(2,\); allowed: integers"),
        (np.zeros((2, 16)), [0, 3], "have no class name: got values from 0 to 3; allowed: 0 to 2"),
        (np.zeros((2, 16)), [-1, 0], "have no class name: got values from -1 to 0"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    tmp_path: Path, features: object, indices: object, message: str
) -> None:
    with pytest.raises(InvalidBank, match=message), bank_writer(tmp_path / "bank") as writer:
        writer.append(features, indices)
    assert write_rest(tmp_path / "bank") == 0


def test_class_names_must_differ(tmp_path: Path) -> None:
    with pytest.raises(InvalidBank, match=r"got 'ant' more than once; allowed: a list of distinct"):
        bank_writer(tmp_path / "bank", names=("ant", "ant", "bee"))
