"""Files that are whole after a crash, and folders that only one process writes."""

import hashlib
import json
import os
import sys
from pathlib import Path

from unitail.errors import InvalidBank


def sha256_of(path: Path) -> str:
    """Hash a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, content: object) -> None:
    """Write a file so that even after a crash it is either the old one or the new one."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=2, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe, where the system can."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path, descriptor: int) -> None:
    """Refuse to write the open file beside another process, until it is closed.

    The system frees the lock of a process that was killed.
    """
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InvalidBank(
            f"another process is writing {path.parent}",
            got="a locked file",
            allowed="one writer at a time",
            remedy="Wait until it has finished.",
        ) from error
    # The other process may have moved the file to its final place since we opened it.
    if not os.path.samestat(os.fstat(descriptor), path.stat()):
        raise FileNotFoundError(f"{path} was replaced")
