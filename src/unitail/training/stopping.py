"""Handle stop signals, so that a run can save its state before it ends."""

import signal
from types import FrameType
from typing import Self


class StopRequest:
    """Records SIGINT and SIGTERM while a run is in progress; a second Ctrl-C ends it at once.

    Launchers send SIGTERM more than once, so only the first one counts.
    """

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
        """Whether a signal has arrived."""
        return self.signal is not None

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
        if number == signal.SIGINT:
            self._restore(signal.SIGINT)

    def _restore(self, *numbers: int) -> None:
        for number in numbers or tuple(self._previous):
            signal.signal(number, self._previous.pop(number))  # type: ignore[arg-type]
