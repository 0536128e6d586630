"""Files and folders that are either whole or not there, whenever a process is killed."""

import errno
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from safetensors import SafetensorError

from unitail.errors import CannotWrite

MAX_TRIES = 100
"""To be alone with something that other processes finish again and again."""
MAX_NAME_BYTES = 230
"""Of what the name of something unfinished keeps of the whole's; systems take 255 in all."""


@contextmanager
def fresh_folder(target: Path) -> Iterator[Path]:
    """Give a new folder to write into, which becomes `target` when all of it is on the disk.

    Whenever the process is killed, `target` is absent, the old one or the new one, and complete;
    for the instant between two renames the old one is called `.NAME.old`, see `recover_folder`.
    Another process that writes the same folder meanwhile is refused. A link is replaced, never what
    it leads to; see `followed`.
    """
    _check_elsewhere(target)
    fresh, old = _beside(target, ".new"), _beside(target, ".old")
    with disk_errors(target), _alone_in(fresh, target):
        recover_folder(target)
        try:
            yield fresh
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


def recover_folder(target: Path) -> None:
    """Repair what a kill in the middle of replacing `target` left; only for who may write there."""
    old = _beside(target, ".old")
    if target.exists():
        _discard(old)
    elif old.exists():
        old.rename(target)


def readable_folder(target: Path) -> Path:
    """Return where the contents of `target` are, also while it is being replaced."""
    target = followed(target)
    old = _beside(target, ".old")
    return old if old.exists() and not target.exists() else target


def followed(path: Path) -> Path:
    """Return what a link leads to, also where nothing is there yet.

    For what a user names to be written. Inside folders, which a stranger may have made, links are
    not followed: what they lead to would be lost.
    """
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _discard(folder: Path) -> None:
    """Remove a folder, or a link that stood in its place."""
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _beside(path: Path, suffix: str) -> Path:
    """Return what something is called until it is whole; the name is hidden, and not too long."""
    name = os.fsdecode(os.fsencode(path.name)[:MAX_NAME_BYTES])
    return path.with_name(f".{name}{suffix}") if name else path


def regular(path: Path) -> Path:
    """Return a file of a folder that strangers may have made, unless it is there and is none.

    A pipe would be waited for without end, and a device be read without end.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "a pipe, a socket or a device in place of a file", str(path))
    return path


def _check_elsewhere(target: Path) -> None:
    """Refuse to replace the current folder, or one around it: what is in there would be lost."""
    if Path.cwd().is_relative_to(os.path.realpath(target)):
        raise CannotWrite(
            f"{target} is the folder that you are in, or one around it",
            got="a folder in use",
            allowed="a new folder, or another one",
            remedy="Name a folder inside it.",
        )


@contextmanager
def _alone_in(fresh: Path, target: Path) -> Iterator[None]:
    """Make an empty folder that no other process takes, whatever a killed one left there."""
    if sys.platform == "win32":
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        yield
        return
    tries = (_claim(fresh, target) for _ in range(MAX_TRIES))
    descriptor = next((each for each in tries if each is not None), None)
    if descriptor is None:
        raise OSError("the folder to write into is replaced again and again")
    try:
        for path in fresh.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        yield
    finally:
        os.close(descriptor)


def _claim(fresh: Path, target: Path) -> int | None:
    """Lock a folder, made if need be; None if another process had just given it its final name."""
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
    """Write a file so that even after a crash it is either the old one or the new one.

    Of several processes that write it at once the last one's is there in the end, and whole. A
    link is replaced, never what it leads to; see `followed`.
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
    """Open a file to write it anew, after others that do so have finished."""
    file = path.open("ab")
    for _ in range(MAX_TRIES):
        if sys.platform != "win32":
            import fcntl

            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
        file.close()  # the other process has given it its final name
        file = path.open("ab")
    file.truncate(0)  # a process may have been killed here
    return file


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


def lock(path: Path, descriptor: int, *, writes: Path | None = None) -> None:
    """Refuse to work on the folder of an open file beside another process, until it is closed.

    `writes` is what is written, if not that folder.

    The system frees the lock of a process that was killed.
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
    except OSError:  # a file system without locks: nothing is kept out, nothing is lost
        return
    # The other process may have moved the file to its final place since we opened it.
    if not os.path.samestat(os.fstat(descriptor), path.stat()):
        raise FileNotFoundError(f"{path} was replaced")
