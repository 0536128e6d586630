import os
from pathlib import Path

import pytest

from unitail.encoders.item_file import opened
from unitail.errors import Unreadable


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "three").write_bytes(b"123")
    with opened(tmp_path / "three", 3) as file:
        assert file.read() == b"123"
    with (
        pytest.raises(Unreadable, match=r"three cannot be read as text: got 3 bytes; allowed: a"),
        opened(tmp_path / "three", 2, kind="text"),
    ):
        pass


def test_what_would_block_or_is_not_there_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (
        ("pipe", "a folder, a pipe"),
        ("", "a folder"),
        ("none", "No such file"),
        ("a\0b", "null"),
    ):
        with (
            pytest.raises(Unreadable, match=f"cannot be read: got .*{reason}"),
            opened(tmp_path / name, 9),
        ):
            pass


def test_what_fails_while_reading_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xe9")
    with (
        pytest.raises(
            Unreadable,
            match=r"latin cannot be read as text: got byte 0xe9 at offset 0; allowed: text in UTF",
        ),
        opened(tmp_path / "latin", 9, kind="text") as file,
    ):
        file.read().decode()
