"""What a command does when nobody reads its output any more, as after `| head`."""

import io
import sys

CLOSED_PIPE = 141
"""What shells report for a tool that a closed pipe ended."""


class PatientOutput(io.FileIO):
    """Standard output that takes everything, and remembers that nobody reads it any more.

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


def outlast_closed_pipe() -> PatientOutput | None:
    """Put such an output in the place of `sys.stdout`; None if that is no file."""
    try:
        output = PatientOutput(sys.stdout.fileno(), "w", closefd=False)
    except (AttributeError, OSError, ValueError):
        return None
    sys.stdout.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding=sys.stdout.encoding,
        errors=sys.stdout.errors,
        line_buffering=output.isatty(),
    )
    return output
