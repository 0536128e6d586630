"""Folders and files on a disk or at an address of fsspec (s3://, gs://, memory://, ...)."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from unitail.errors import InvalidInput, optional
from unitail.files import disk_errors, is_address, write_bytes


class Storage:
    """A file, or a folder with its content."""

    def __init__(self, name: str | Path) -> None:
        # Paths are made absolute: workers may run in another folder.
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
        """Whether this is a path on a local disk."""
        return "file" in _protocols(self._system)

    @property
    def is_folder(self) -> bool:
        """Whether this is a folder."""
        with self._reading():
            return bool(self._system.isdir(self._path))

    @property
    def exists(self) -> bool:
        """Whether the file or folder exists."""
        with self._reading():
            return bool(self._system.exists(self._path))

    def inside(self, name: str) -> "Storage":
        """Return the file or folder of this name in the folder."""
        return Storage(f"{self.name}/{name}")

    @property
    def folder(self) -> "Storage":
        """The folder that contains it."""
        return Storage(self.name.rpartition("/")[0] or "/")

    def identity(self) -> str:
        """Return a hash that changes with the file: of its name, size, time and tag."""
        with self._reading():
            info = self._system.info(self._path)
        facts = {name: info.get(name) for name in ("size", "mtime", "ETag", "etag", "created")}
        return hashlib.sha256(f"{self.name} {facts}".encode()).hexdigest()

    def files(self) -> dict[str, int]:
        """Return the sizes of all files in the folder and its subfolders, by relative path.

        The paths are sorted; hidden files are left out.
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
        """List the names in the folder itself, hidden ones included."""
        with self._reading():
            self._system.invalidate_cache()  # workers on other machines may have written
            paths = self._system.ls(self._path, detail=False)
        return sorted(PurePosixPath(str(path)).name for path in paths)

    def open(self) -> IO[bytes]:
        """Open the file for reading."""
        with self._reading():
            file: IO[bytes] = self._system.open(self._path, "rb")
            return file

    def read(self, name: str) -> bytes:
        """Read a file in the folder."""
        with self.inside(name).open() as file:
            return file.read()

    def copy_to(self, target: Path) -> None:
        """Copy the file to a local path; errors of the store are left to the caller."""
        self._system.get_file(self._path, str(target))

    def write(self, name: str, content: bytes) -> None:
        """Write a file into the folder atomically."""
        if self.is_local:
            target = Path(self._path) / name
            with disk_errors(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(target, content)
        else:  # object stores take a file in one request, which is atomic
            self._system.pipe_file(f"{self._path}/{name}", content)

    def remove(self) -> None:
        """Remove the folder and everything in it."""
        self._system.rm(self._path, recursive=True)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn any error of a store into an `InvalidInput` of one sentence."""
        try:
            yield
        except Exception as error:  # each store has errors of its own
            raise InvalidInput(
                f"{self.name} cannot be read",
                got=f"{type(error).__name__}: {error}",
                allowed="a file or folder that exists and that you may read",
            ) from error


def _protocols(system: Any) -> tuple[str, ...]:  # noqa: ANN401 - fsspec has no types
    names = system.protocol
    return (names,) if isinstance(names, str) else tuple(names)
