import errno
import hashlib
import os
from pathlib import Path

import pytest

from unitail import files
from unitail.errors import CannotWrite
from unitail.files import (
    check_replaceable,
    followed,
    fresh_folder,
    readable_folder,
    recover_folder,
    regular,
    sha256_of,
    write_json,
)


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"
    with fresh_folder(target) as fresh:
        (fresh / "file").write_text("new")
        assert not target.exists()
    assert (target / "file").read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_the_old_folder_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "target"
    for text in ("old", "new"):
        with fresh_folder(target) as fresh:
            (fresh / text).write_text(text)
            assert not (target / "new").exists()
    assert [path.name for path in target.iterdir()] == ["new"]


def test_a_failure_leaves_the_old_folder_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with fresh_folder(target) as fresh:
        (fresh / "file").write_text("old")

    def interrupted() -> None:
        with fresh_folder(target) as fresh:
            (fresh / "file").write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (target / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_what_a_link_leads_to_is_not_replaced(tmp_path: Path) -> None:
    """In a folder that a stranger made it may lead to anything."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "file").write_text("own")
    for name, target in (("folder", "own"), ("file", "own/file"), ("a", "a"), ("b", "b")):
        (tmp_path / name).symlink_to(target)
    for name in ("folder", "a"):
        with fresh_folder(tmp_path / name) as fresh:
            (fresh / "new").write_text("new")
        assert [path.name for path in (tmp_path / name).iterdir()] == ["new"]
    for name in ("file", "b"):
        write_json(tmp_path / name, 1)
        assert (tmp_path / name).read_text() == "1\n"
    assert (tmp_path / "own" / "file").read_text() == "own"
    assert {path.name for path in tmp_path.iterdir()} == {"own", "folder", "file", "a", "b"}


def test_a_link_is_followed_to_where_nothing_is_yet(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    assert followed(tmp_path / "link") == readable_folder(tmp_path / "link") == tmp_path / "real"
    (tmp_path / ".real.old").mkdir()
    assert readable_folder(tmp_path / "link") == tmp_path / ".real.old"
    assert followed(tmp_path / "real") == tmp_path / "real"


def test_a_full_disk_is_named_and_the_old_folder_is_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    with fresh_folder(target) as fresh:
        (fresh / "file").write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    message = r"target could not be written: got .*No space left on device.*saved before is intact"
    with pytest.raises(CannotWrite, match=message), fresh_folder(target) as fresh:
        (fresh / "file").write_text("new")
    assert (target / "file").read_text() == "old"


def test_a_kill_between_the_renames_is_mended(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / ".target.old").mkdir()
    (tmp_path / ".target.old" / "file").write_text("old")
    recover_folder(target)
    assert (target / "file").read_text() == "old"


def test_what_a_kill_left_half_written_is_not_used(tmp_path: Path) -> None:
    (tmp_path / ".target.new").mkdir()
    (tmp_path / ".target.new" / "half").write_text("half")
    with fresh_folder(tmp_path / "target") as fresh:
        assert not list(fresh.iterdir())
        (fresh / "file").write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_a_file_is_hashed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert sha256_of(tmp_path / "file") == hashlib.sha256(b"abc").hexdigest()


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.json"
    write_json(path, ["old", "é"])

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_json(path, ["new"])
    assert path.read_text(encoding="utf-8") == '[\n  "old",\n  "é"\n]\n'


def test_all_is_on_the_disk_before_a_folder_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of the machine after the rename must not find files without contents."""
    flushed: list[str] = []
    monkeypatch.setattr(files, "flush", lambda path: flushed.append(path.name))
    rename = Path.rename
    monkeypatch.setattr(
        Path, "rename", lambda path, new: (flushed.append("renamed"), rename(path, new))[1]
    )
    with files.fresh_folder(tmp_path / "model") as fresh:
        for name in ("one", "two"):
            (fresh / name).write_text(name)
    assert set(flushed[:2]) == {"one", "two"}
    assert flushed[2:] == [".model.new", "renamed", tmp_path.name]


def test_a_failed_write_leaves_nothing_beside_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_json(tmp_path / "file.json", ["new"])
    assert list(tmp_path.iterdir()) == []


def test_names_may_be_as_long_as_the_system_takes(tmp_path: Path) -> None:
    write_json(tmp_path / ("é" * 127), ["x"])
    with fresh_folder(tmp_path / ("m" * 255)) as fresh:
        (fresh / "file").write_text("x")
    assert sorted(len(path.name) for path in tmp_path.iterdir()) == [127, 255]


def test_two_processes_that_write_one_file_do_not_mix_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    texts = [letter * 3_000_000 for letter in "ab"]
    children = []
    for text in texts:
        children.append(os.fork())
        if children[-1] == 0:
            for _ in range(8):
                files.write_text(path, text)
            os._exit(0)
    while any(os.waitpid(child, os.WNOHANG) == (0, 0) for child in children[:1]):
        assert not path.exists() or path.read_text() in texts
    assert os.waitstatus_to_exitcode(os.waitpid(children[1], 0)[1]) == 0
    assert path.read_text() in texts
    assert [each.name for each in tmp_path.iterdir()] == ["answers.csv"]


def test_a_folder_that_another_process_writes_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with fresh_folder(target) as fresh:
        (fresh / "file").write_text("first")
        message = r"another process is writing .*model: .*Wait until it has finished"
        with pytest.raises(CannotWrite, match=message), fresh_folder(target):
            pass
    assert (target / "file").read_text() == "first"


@pytest.mark.parametrize("name", [".", "..", "/"])
def test_the_current_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    message = "is the current folder, or contains it: .*Name a folder inside it"
    with pytest.raises(CannotWrite, match=message), fresh_folder(Path(name)):
        pass


def test_a_new_folder_can_be_read_by_whoever_can_read_new_files(tmp_path: Path) -> None:
    """Some libraries write files for their owner alone, and a service runs as another user."""
    (tmp_path / "usual").touch()
    with fresh_folder(tmp_path / "folder") as fresh:
        (fresh / "plain").touch()
        (fresh / "private").touch(mode=0o600)
    modes = {path.name: path.stat().st_mode for path in (tmp_path / "folder").iterdir()}
    usual = (tmp_path / "usual").stat().st_mode
    assert modes == {"plain": usual, "private": usual}


def test_a_file_without_permission_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "private"
    path.touch()
    assert regular(path) == path
    monkeypatch.setattr("os.access", lambda *_: False)  # root may read everything
    with pytest.raises(PermissionError, match="no permission to read it"):
        regular(path)


def test_a_folder_that_cannot_be_replaced_is_reported_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    check_replaceable(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    with pytest.raises(CannotWrite, match=r"No such file"):
        check_replaceable(tmp_path / "nowhere" / "model")
    monkeypatch.setattr("os.path.ismount", lambda path: Path(path).name == "model")
    with pytest.raises(CannotWrite, match="a mount point, which cannot be renamed"):
        check_replaceable(tmp_path / "model")
