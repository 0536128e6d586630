import errno
import hashlib
from pathlib import Path

import pytest

from unitail.tasks.safe_files import sha256_of, write_json


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
