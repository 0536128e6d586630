"""Files and folders that are either whole or not there, whenever a process is killed."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from unitail.errors import CannotWrite


@contextmanager
def fresh_folder(target: Path) -> Iterator[Path]:
    """Give a new folder to write into, which becomes `target` when all of it is on the disk.

    Whenever the process is killed, `target` is absent, the old one or the new one, and complete;
    for the instant between two renames the old one is called `.NAME.old`, see `recover_folder`.
    """
    fresh, old = target.with_name(f".{target.name}.new"), target.with_name(f".{target.name}.old")
    with disk_errors(target):
        recover_folder(target)
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            fresh.mkdir(parents=True)
            yield fresh
            for path in (*fresh.iterdir(), fresh):
                flush(path)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        if target.exists():
            target.rename(old)
        fresh.rename(target)
        shutil.rmtree(old, ignore_errors=True)
        flush(target.parent)


def recover_folder(target: Path) -> None:
    """Repair what a kill in the middle of replacing `target` left; only for who may write there."""
    old = target.with_name(f".{target.name}.old")
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        old.rename(target)


def readable_folder(target: Path) -> Path:
    """Return where the contents of `target` are, also while it is being replaced."""
    old = target.with_name(f".{target.name}.old")
    return old if old.exists() and not target.exists() else target


@contextmanager
def disk_errors(target: Path) -> Iterator[None]:
    """Turn a disk that is full, or cannot be written to, into an error that says so."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise CannotWrite(
            f"{target} could not be written",
            got=str(error),
            allowed="a disk with room that can be written to",
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write a file of text; see `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that even after a crash it is either the old one or the new one."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def write_json(path: Path, content: object) -> None:
    """Write a JSON file; see `write_text`."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def sha256_of(path: Path) -> str:
    """Hash a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, where the system can tell."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path, descriptor: int) -> None:
    """Refuse to work on the folder of an open file beside another process, until it is closed.

    The system frees the lock of a process that was killed.
    """
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise CannotWrite(
            f"another process is writing {path.parent}",
            got="a locked file",
            allowed="one writer at a time",
            remedy="Wait until it has finished, or name another folder.",
        ) from error
    except OSError:  # a file system without locks: nothing is kept out, nothing is lost
        return
    # The other process may have moved the file to its final place since we opened it.
    if not os.path.samestat(os.fstat(descriptor), path.stat()):
        raise FileNotFoundError(f"{path} was replaced")
