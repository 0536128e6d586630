import errno
import os
import pickle
from pathlib import Path

import fsspec
import pytest

from unitail.engines.storage import Storage
from unitail.errors import CannotWrite, InvalidInput
from unitail.files import is_address


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "disk":
        return Storage(tmp_path / "folder")
    fsspec.filesystem("memory").store.clear()
    return Storage("memory://bucket/folder/")


def test_files_are_written_listed_and_read(folder: Storage, tmp_path: Path) -> None:
    assert not folder.exists
    folder.write("b.txt", b"one")
    folder.write("b.txt", b"two")
    folder.inside("a").write("c.txt", b"three")
    folder.write("_job.json", b"{}")
    assert folder.exists
    assert folder.is_folder
    assert folder.files() == {"a/c.txt": 5, "b.txt": 3}
    assert folder.names() == ["_job.json", "a", "b.txt"]
    assert folder.read("b.txt") == b"two"
    again: Storage = pickle.loads(pickle.dumps(folder)).inside("b.txt")
    with again.open() as file:
        assert file.read() == b"two"
    assert again.folder.name == folder.name
    again.copy_to(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"two"
    before = again.identity()
    assert before == again.identity()
    folder.write("b.txt", b"longer")
    assert before != again.identity()
    folder.remove()
    assert not folder.exists


def test_a_missing_path_is_reported(folder: Storage) -> None:
    with pytest.raises(InvalidInput, match=r"x\.csv cannot be read: got FileNotFoundError"):
        folder.inside("x.csv").open()


def test_an_address_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_address("s3://bucket/x")
    assert not is_address("/bucket/x")
    monkeypatch.chdir(tmp_path)
    assert Storage("here").name == str(tmp_path / "here")  # wherever it is unpickled
    with pytest.raises(InvalidInput, match=r"nonsense://x cannot be opened: .* s3fs for s3://"):
        Storage("nonsense://x")


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        assert (tmp_path / ".a.new").exists()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    Storage(tmp_path).write("a", b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotWrite, match="No space left"):
        Storage(tmp_path).write("a", b"new one")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]
