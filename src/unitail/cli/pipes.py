"""What a command does when its output cannot be written: nobody reads it, or the disk is full."""

import io
import sys
from typing import TextIO

CLOSED_PIPE = 141
"""What shells report for a tool that a closed pipe ended."""


class PatientOutput(io.FileIO):
    """An output that takes everything, and remembers that nobody reads it any more.

    So a command finishes what else it promised, the files above all, before it exits.
    """

    was_closed = False
    trouble: OSError | None = None
    """What the system said when it refused to write, as a full disk does."""

    def write(self, content: bytes, /) -> int:  # type: ignore[override]
        """Write, or pretend to."""
        if not self.was_closed and self.trouble is None:
            try:
                return super().write(content) or 0
            except BrokenPipeError:
                self.was_closed = True
            except OSError as error:
                self.trouble = error
        return len(content)


class NoOutput(io.StringIO):
    """In place of an output that was closed before the start: it swallows all."""

    def write(self, content: str, /) -> int:
        """Forget it."""
        return len(content)


def outlast_closed_pipes() -> list[PatientOutput]:
    """Put such outputs in the place of `sys.stdout` and `sys.stderr`, where these are files.

    A stream that was closed before the start gets an end that swallows all.
    """
    stdout, stderr = _patient(sys.stdout), _patient(sys.stderr)
    sys.stdout = stdout or sys.stdout or NoOutput()
    sys.stderr = stderr or sys.stderr or NoOutput()
    return [stream.buffer.raw for stream in (stdout, stderr) if stream]  # type: ignore[attr-defined]


def _patient(stream: TextIO) -> io.TextIOWrapper | None:
    try:
        output = PatientOutput(stream.fileno(), "w", closefd=False)
    except (AttributeError, OSError, ValueError):
        return None
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(output),  # type: ignore[type-var]
        encoding=stream.encoding,
        errors="backslashreplace",  # names of files need not be text
        line_buffering=output.isatty() or stream is sys.stderr,
    )
