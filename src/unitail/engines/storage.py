"""Folders and files on a disk, or at an address that fsspec opens: s3://, gs://, memory://, ..."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from unitail.engines.choice import is_address
from unitail.errors import InvalidInput, optional
from unitail.files import disk_errors, write_bytes


class Storage:
    """A file, or a folder with all that is in it."""

    def __init__(self, name: str | Path) -> None:
        # Workers may be in another folder.
        self.name = str(name).rstrip("/") if is_address(str(name)) else str(Path(name).absolute())
        fsspec = optional("fsspec.core", extra="scale")
        try:
            self._system, self._path = fsspec.url_to_fs(self.name)
        except (ImportError, ValueError) as error:
            raise InvalidInput(
                f"{self.name} cannot be opened",
                got=str(error),
                allowed="paths, and addresses whose package for fsspec is installed",
                remedy="Install it: s3fs for s3://, gcsfs for gs://, adlfs for abfs://.",
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return Storage, (self.name,)

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk of this machine."""
        return "file" in _protocols(self._system)

    @property
    def is_folder(self) -> bool:
        """Whether there is something in it."""
        with self._reading():
            return bool(self._system.isdir(self._path))

    @property
    def exists(self) -> bool:
        """Whether there is a file or folder of that name."""
        with self._reading():
            return bool(self._system.exists(self._path))

    def inside(self, name: str) -> "Storage":
        """Return what is called so in this folder."""
        return Storage(f"{self.name}/{name}")

    @property
    def folder(self) -> "Storage":
        """The folder that it is in."""
        return Storage(self.name.rpartition("/")[0] or "/")

    def identity(self) -> str:
        """Hash what tells whether a file has changed: its size, its time or its tag."""
        with self._reading():
            told = self._system.info(self._path)
        facts = {name: told.get(name) for name in ("size", "mtime", "ETag", "etag", "created")}
        return hashlib.sha256(f"{self.name} {facts}".encode()).hexdigest()

    def files(self) -> dict[str, int]:
        """Return the size of each file in the folder and its subfolders, by its path in there.

        They are sorted; hidden ones are left out.
        """
        with self._reading():
            listed = self._system.find(self._path, detail=True)
        sizes = {}
        for path, facts in listed.items():
            within = PurePosixPath(str(path)).relative_to(PurePosixPath(str(self._path)))
            if not any(name.startswith((".", "_")) for name in within.parts):
                sizes[str(within)] = int(facts.get("size") or 0)
        return dict(sorted(sizes.items(), key=lambda pair: PurePosixPath(pair[0]).parts))

    def names(self) -> list[str]:
        """List what is in the folder itself, hidden or not."""
        with self._reading():
            self._system.invalidate_cache()  # workers elsewhere may have written
            paths = self._system.ls(self._path, detail=False)
        return sorted(PurePosixPath(str(path)).name for path in paths)

    def open(self) -> IO[bytes]:
        """Open a file to read."""
        with self._reading():
            file: IO[bytes] = self._system.open(self._path, "rb")
            return file

    def read(self, name: str) -> bytes:
        """Read a file in the folder."""
        with self.inside(name).open() as file:
            return file.read()

    def copy_to(self, target: Path) -> None:
        """Copy a file to this disk; whatever a store raises is told by the caller."""
        self._system.get_file(self._path, str(target))

    def write(self, name: str, content: bytes) -> None:
        """Write a file into the folder, whole or not at all."""
        if self.is_local:
            target = Path(self._path) / name
            with disk_errors(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(target, content)
        else:  # stores of objects take a file as one request, so it is there whole or not at all
            self._system.pipe_file(f"{self._path}/{name}", content)

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        self._system.rm(self._path, recursive=True)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Say in one sentence whatever a store of files raises."""
        try:
            yield
        except Exception as error:  # each store has errors of its own
            raise InvalidInput(
                f"{self.name} cannot be read",
                got=f"{type(error).__name__}: {error}",
                allowed="a file or folder that is there and open to you",
            ) from error


def _protocols(system: Any) -> tuple[str, ...]:  # noqa: ANN401 - fsspec has no types
    names = system.protocol
    return (names,) if isinstance(names, str) else tuple(names)
