"""Cuts off clients that do not read what was sent to them.

A client that does not read would hold its answer in memory, and its place among the requests in
progress, for ever: uvicorn waits until it can write, and the system until it can close. So whatever
is written, while some of it is unsent, we look now and then at how much of it the system has taken.
One that reads less than 4 KiB/s for 30 s is cut off, or for up to two minutes if it has read much.

The system takes bytes in steps, so that a look may well see none of them taken: steps of up to
`MAX_UNSENT` at first, and larger ones once a client has read fast, because Linux enlarges the
buffer of such a client and then asks for more only when about a sixteenth of it is free. So each
client is given *patience*, in seconds: first `READ_SECONDS`, then also as many as it takes to read
what was taken at the smallest rate, up to `MAX_PATIENCE`, always less those that have passed.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

READ_SECONDS = 30.0
"""How long a client may read less than the smallest rate, unless it has read much before."""
MAX_PATIENCE = 120.0
"""How long at most: steps of 480 KiB at the smallest rate, where Linux's usual limit for the buffer
of a client, 6 MiB, makes them 384 KiB."""
MIN_RATE = 4 * 2**10
"""Bytes that a client must read in a second."""
LOOK_SECONDS = 3.0
"""Time between two looks."""
MAX_UNSENT = 128 * 2**10
"""Bytes that the system may hold unsent: among megabytes, slow reading would not be noticed."""
assert MAX_UNSENT / (1.1 * MIN_RATE) < READ_SECONDS, "the first step would outlast the patience"


@dataclass(frozen=True, kw_only=True)
class ReadingPace:
    """How fast a client must read."""

    seconds: float = READ_SECONDS
    max_patience: float = MAX_PATIENCE
    min_rate: float = MIN_RATE
    look_seconds: float = LOOK_SECONDS


class MeteredTransport:
    """A transport that counts what is written, and tells when some of it stays unsent."""

    def __init__(self, transport: asyncio.Transport, on_unsent: Callable[[], None]) -> None:
        self._transport, self._on_unsent = transport, on_unsent
        self.written = 0
        """Bytes written so far."""

    def write(self, data: bytes) -> None:
        """Write bytes: the system takes some now, and the others later."""
        self.written += len(data)
        self._transport.write(data)
        if self.unsent:
            self._on_unsent()

    @property
    def unsent(self) -> int:
        """The number of bytes that the system has not taken yet."""
        return self._transport.get_write_buffer_size()

    @property
    def taken(self) -> int:
        """The number of bytes that the system has taken."""
        return self.written - self.unsent

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all else is the transport's own
        return getattr(self._transport, name)


class ReadingWatch:
    """Watches how a client reads, from any write that the system does not take as a whole."""

    def __init__(
        self, transport: asyncio.Transport, pace: ReadingPace, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.transport = MeteredTransport(transport, self._start)
        """What the connection has to write to."""
        self._pace, self._loop = pace, loop
        self._is_limited = _limit_unsent(transport)
        self._look: asyncio.TimerHandle | None = None
        self._patience = self._since = 0.0
        self._credited = 0

    def stop(self) -> None:
        """Look no more: the connection is closed."""
        if self._look is not None:
            self._look.cancel()
            self._look = None

    @property
    def _credit(self) -> int:
        """The bytes that give patience.

        Where the system takes as much as it likes at a time, all bytes do so when they are written.
        """
        return self.transport.taken if self._is_limited else self.transport.written

    def _start(self) -> None:
        if self._look is None:
            ahead = 0 if self._is_limited else self.transport.unsent / self._pace.min_rate
            self._patience = self._pace.seconds + ahead
            self._look_later()

    def _look_later(self) -> None:
        self._credited, self._since = self._credit, self._loop.time()
        self._look = self._loop.call_later(self._pace.look_seconds, self._on_look)

    def _on_look(self) -> None:
        self._look = None
        if not self.transport.unsent:
            return
        self._patience += (self._credit - self._credited) / self._pace.min_rate
        if self._is_limited:
            self._patience = min(self._patience, self._pace.max_patience)
        # A loop that was held up for longer could not write meanwhile, whatever the client read.
        self._patience -= min(self._loop.time() - self._since, 2 * self._pace.look_seconds)
        if self._patience < 0:
            self.transport.abort()  # the request in progress, if any, ends as disconnected
        else:
            self._look_later()


def _limit_unsent(transport: asyncio.Transport) -> bool:
    """Let the system take little in advance, so that it takes more only as the client reads."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)  # Windows has none
    connection = transport.get_extra_info("socket")
    if option is None or connection is None:
        return False
    with suppress(OSError):  # not over TCP
        connection.setsockopt(socket.IPPROTO_TCP, option, MAX_UNSENT)
        return True
    return False
