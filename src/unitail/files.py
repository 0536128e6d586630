"""Atomic writing of files and folders: each is complete or absent, even if a process is killed."""

import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from safetensors import SafetensorError

from unitail.errors import CannotWrite

MAX_TRIES = 100
"""Attempts to lock a file or folder that other processes keep replacing."""
MAX_NAME_BYTES = 230
"""Bytes of a name that its temporary name keeps; systems allow 255 in total."""


def is_address(name: str) -> bool:
    """Return whether a name is an address, such as s3://bucket/x, and not a path."""
    return "://" in name


@contextmanager
def fresh_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder to write to, which replaces `target` once it is completely on disk.

    If the process is killed at any time, `target` is absent, the old folder or the new one, and
    complete; for the instant between two renames the old one is called `.NAME.old` (see
    `recover_folder`). Other processes that write the same folder meanwhile are refused. A link is
    replaced, not its target; see `followed`.
    """
    _check_elsewhere(target)
    fresh, old = _beside(target, ".new"), _beside(target, ".old")
    with disk_errors(target), _alone_in(fresh, target):
        recover_folder(target)
        try:
            yield fresh
            _share_as_usual(fresh)
            for path in (*fresh.iterdir(), fresh):
                flush(path)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        if os.path.lexists(target):
            target.rename(old)
        fresh.rename(target)
        _discard(old)
        flush(target.parent)


def check_replaceable(target: Path) -> None:
    """Raise `CannotWrite` unless `fresh_folder` could replace a folder: early, before any work."""
    target = followed(target)
    if os.path.ismount(target):
        raise CannotWrite(
            f"{target} cannot be replaced",
            got="a mount point, which cannot be renamed",
            allowed="a folder whose parent can be written to",
            remedy="Mount the folder that contains it.",
        )
    with disk_errors(target):
        Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent)).rmdir()


def _share_as_usual(folder: Path) -> None:
    """Give all files the permissions of new ones: safetensors lets only the owner read its own."""
    probe = folder / ".new"
    probe.touch()
    mode = probe.stat().st_mode
    probe.unlink()
    for path in folder.iterdir():
        path.chmod(mode)


def recover_folder(target: Path) -> None:
    """Repair `target` if a process was killed while replacing it; for its writer only."""
    old = _beside(target, ".old")
    if target.exists():
        _discard(old)
    elif old.exists():
        old.rename(target)


def readable_folder(target: Path) -> Path:
    """Return the folder to read `target` from, even while it is being replaced."""
    target = followed(target)
    old = _beside(target, ".old")
    return old if old.exists() and not target.exists() else target


def followed(path: Path) -> Path:
    """Return the target of a link, whether it exists or not; any other path is unchanged.

    Use this for output paths that the user names. Links inside folders, which may come from an
    untrusted source, must not be followed, as their targets would be overwritten.
    """
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _discard(folder: Path) -> None:
    """Remove a folder, or a link in its place."""
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _beside(path: Path, suffix: str) -> Path:
    """Return the hidden temporary path next to `path`, shortened if the name is too long."""
    name = os.fsdecode(os.fsencode(path.name)[:MAX_NAME_BYTES])
    return path.with_name(f".{name}{suffix}") if name else path


def regular(path: Path) -> Path:
    """Return the path of a file in an untrusted folder; refuse pipes, sockets and devices.

    Reading from a pipe or a device might never end.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "a pipe, a socket or a device in place of a file", str(path))
    if path.exists() and not os.access(path, os.R_OK):  # safetensors would call it missing
        raise PermissionError(errno.EACCES, "no permission to read it", str(path))
    return path


def _check_elsewhere(target: Path) -> None:
    """Refuse to replace the current folder or a parent of it, whose contents would be lost."""
    if Path.cwd().is_relative_to(os.path.realpath(target)):
        raise CannotWrite(
            f"{target} is the current folder, or contains it",
            got="a folder in use",
            allowed="a new folder, or another one",
            remedy="Name a folder inside it.",
        )


@contextmanager
def _alone_in(fresh: Path, target: Path) -> Iterator[None]:
    """Create and lock an empty folder, removing what a killed process left there."""
    if sys.platform == "win32":
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        yield
        return
    tries = (_claim(fresh, target) for _ in range(MAX_TRIES))
    descriptor = next((each for each in tries if each is not None), None)
    if descriptor is None:
        raise OSError("other processes keep replacing the folder")
    try:
        for path in fresh.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        yield
    finally:
        os.close(descriptor)


def _claim(fresh: Path, target: Path) -> int | None:
    """Create and lock a folder; None if another process has just renamed it to its final name."""
    fresh.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(fresh, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        lock(fresh, descriptor, writes=target)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, FileNotFoundError):
            return None
        raise
    return descriptor


@contextmanager
def disk_errors(target: Path) -> Iterator[None]:
    """Convert errors from a disk that is full or read-only to `CannotWrite`."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise CannotWrite(
            f"{target} could not be written",
            got=str(error),
            allowed="a writable disk with free space",
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically; see `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: even after a crash it is either the old one or the new one.

    If several processes write it at once, the last one wins, and the file is complete. A link is
    replaced, not its target; see `followed`.
    """
    fresh = _beside(path, ".new")
    with _opened_alone(fresh) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if sys.platform == "win32":
                file.close()  # an open file cannot be renamed there
            os.replace(fresh, path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise


def _opened_alone(path: Path) -> IO[bytes]:
    """Open a file for writing, exclusively: wait until other processes have finished with it."""
    file = path.open("ab")
    for _ in range(MAX_TRIES):
        if sys.platform != "win32":
            import fcntl

            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
        file.close()  # the other process has renamed it to its final name
        file = path.open("ab")
    file.truncate(0)  # a killed process may have left content
    return file


def write_json(path: Path, content: object) -> None:
    """Write a JSON file atomically; see `write_bytes`."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 hash of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk, where the system supports it."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path, descriptor: int, *, writes: Path | None = None) -> None:
    """Lock an open file; raise `CannotWrite` if another process holds the lock.

    The lock is released when the file is closed, also if the process is killed. `writes` is what
    the error names as being written; the default is the file's folder.
    """
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise CannotWrite(
            f"another process is writing {writes or path.parent}",
            got="a locked file",
            allowed="one writer at a time",
            remedy="Wait until it has finished, or name another folder.",
        ) from error
    except OSError:  # a file system without locks: continue without one
        return
    # The other process may have moved the file to its final place since we opened it.
    if not os.path.samestat(os.fstat(descriptor), path.stat()):
        raise FileNotFoundError(f"{path} was replaced")
