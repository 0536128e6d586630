"""Folders that are either whole or not there."""

import os
import shutil
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
    recover_folder(target)
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir(parents=True)
        yield fresh
        for path in (*fresh.iterdir(), fresh):
            _flush(path)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise CannotWrite(
            f"{target} could not be written",
            got=str(error),
            allowed="a disk with room that can be written to",
        ) from error
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    if target.exists():
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    _flush(target.parent)


def recover_folder(target: Path) -> None:
    """Give `target` its name back if a kill came between the renames that replace it."""
    old = target.with_name(f".{target.name}.old")
    if old.exists() and not target.exists():
        old.rename(target)


def _flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
