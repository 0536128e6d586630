"""What a command does when nobody reads its output any more, as after `| head`."""

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

    def write(self, content: bytes, /) -> int:  # type: ignore[override]
        """Write, or pretend to."""
        if not self.was_closed:
            try:
                return super().write(content) or 0
            except BrokenPipeError:
                self.was_closed = True
        return len(content)


def outlast_closed_pipes() -> list[PatientOutput]:
    """Put such outputs in the place of `sys.stdout` and `sys.stderr`, where these are files."""
    stdout, stderr = _patient(sys.stdout), _patient(sys.stderr)
    sys.stdout, sys.stderr = stdout or sys.stdout, stderr or sys.stderr
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
        errors=stream.errors,
        line_buffering=output.isatty() or stream is sys.stderr,
    )
