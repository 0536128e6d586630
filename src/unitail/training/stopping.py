"""Leaving cleanly when asked to."""

import signal
from types import FrameType
from typing import Self


class StopRequest:
    """Remembers SIGINT and SIGTERM while a run is under way; a second one ends it at once."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._previous: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()

    @property
    def asked(self) -> bool:
        """Whether someone asked to stop."""
        return self.signal is not None

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
        self._restore()

    def _restore(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, handler)  # type: ignore[arg-type]
