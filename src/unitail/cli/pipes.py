"""Outputs that survive a closed pipe or a full disk, so that a command can finish its work."""

import io
import sys
from typing import TextIO

CLOSED_PIPE = 141
"""Exit code that shells report for a process ended by a closed pipe (128 + SIGPIPE)."""


class PatientOutput(io.FileIO):
    """An output that never raises: it records errors and discards what cannot be written.

    A command can thus finish its other work, above all its files, before it exits.
    """

    was_closed = False
    trouble: OSError | None = None
    """Error of the last failed write, such as a full disk; a closed pipe is not one."""

    def write(self, content: bytes, /) -> int:  # type: ignore[override]
        """Write the bytes, or discard them after an error."""
        if not self.was_closed and self.trouble is None:
            try:
                return super().write(content) or 0
            except BrokenPipeError:
                self.was_closed = True
            except OSError as error:
                self.trouble = error
        return len(content)


class NoOutput(io.StringIO):
    """Replacement for an output that was closed before the start: it discards everything."""

    def write(self, content: str, /) -> int:
        """Discard the text."""
        return len(content)


def outlast_closed_pipes() -> list[PatientOutput]:
    """Replace `sys.stdout` and `sys.stderr` by patient outputs if they are files.

    A stream that was closed before the start is replaced by one that discards everything.
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
        errors="backslashreplace",  # file names need not be valid text
        line_buffering=output.isatty() or stream is sys.stderr,
    )
