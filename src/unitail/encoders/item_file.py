"""Safe opening of users' files."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from unitail.errors import Unreadable
from unitail.wording import shown


@contextmanager
def opened(path: Path, max_bytes: int, *, kind: str = "") -> Iterator[BufferedReader]:
    """Open a file for reading, or raise `Unreadable`; `kind` is for messages, such as "an image".

    Pipes and devices are refused, since reading them may never end, and so are too large files.
    """
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise OSError("a folder, a pipe or a device")
        if size > max_bytes:
            raise OSError(f"{size} bytes")
        with path.open("rb") as file:
            yield file
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"{shown(path)} cannot be read as {kind}",
            got=f"byte {error.object[error.start]:#04x} at offset {error.start:,}",
            allowed="text in UTF-8",
            remedy="Save it again as UTF-8.",
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise Unreadable(
            f"{shown(path)} cannot be read{kind and f' as {kind}'}",
            got=getattr(error, "strerror", None) or str(error),
            allowed=f"a file of at most {max_bytes} bytes",
        ) from error
