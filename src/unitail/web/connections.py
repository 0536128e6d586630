"""Closes connections on which nothing goes forward, and limits the number of connections.

A client that does not read its answer would hold it in memory, and its place among the requests in
progress, for ever: uvicorn waits until it can write. So a client that reads nothing for a while is
cut off. One that reads slowly gets everything.

Before the head of a request has arrived, no token can be checked. uvicorn waits for it forever, so
a client that opens connections and sends a byte now and then could use up all that a system allows.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""Time for the head of a request to arrive, counted from the connection or from its first byte."""
READ_SECONDS = 30.0
"""Time in which a client must read some of its answer, however little."""
MAX_UNSENT = 128 * 2**10
"""Bytes that the system may hold unsent: among megabytes, slow reading would not be noticed."""
MAX_CONNECTIONS = 500
"""Connections of a server: about half of the files that a process may usually open."""


class LimitedConnection(H11Protocol):
    """A uvicorn connection that is closed if no request arrives, or no answer is read."""

    head_seconds = HEAD_SECONDS
    read_seconds = READ_SECONDS
    max_connections = MAX_CONNECTIONS
    _deadline: asyncio.TimerHandle | None = None
    _read_deadline: asyncio.TimerHandle | None = None
    _unread = 0
    """Bytes in the write buffer at the last look."""

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        """Accept the connection, unless there are too many."""
        super().connection_made(transport)
        _limit_unsent(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(503, "Service Unavailable", "there are too many connections")
        else:
            self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Process bytes; once a request has arrived, its time is no longer limited here."""
        if not self.transport.get_write_buffer_size():
            self._stop_read_timer()
        super().data_received(data)
        if self._has_request:
            self._stop_timer()
        elif self._deadline is None and not self.transport.is_closing():
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers of a closed connection."""
        self._stop_timer()
        self._stop_read_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to read, but not for ever."""
        super().pause_writing()
        self._start_read_timer()

    def resume_writing(self) -> None:
        """Give the client its time anew: it has read nearly everything so far."""
        self._stop_read_timer()
        super().resume_writing()
        if self.transport.get_write_buffer_size():
            self._start_read_timer()

    def on_response_complete(self) -> None:
        """Note when the client began to read the rest of the answer."""
        if self.transport.get_write_buffer_size():
            self._start_read_timer()
        else:
            self._stop_read_timer()
        super().on_response_complete()

    def _start_read_timer(self) -> None:
        if self._read_deadline is None:
            self._unread = self.transport.get_write_buffer_size()
            self._read_deadline = self.loop.call_later(self.read_seconds, self._on_unread)

    def _stop_read_timer(self) -> None:
        if self._read_deadline is not None:
            self._read_deadline.cancel()
            self._read_deadline = None

    def _on_unread(self) -> None:
        self._read_deadline = None
        unread = self.transport.get_write_buffer_size()
        if 0 < unread < self._unread:
            self._start_read_timer()
        elif unread:
            self.transport.abort()  # the request in progress, if any, ends as disconnected

    @property
    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_timer(self) -> None:
        self._deadline = self.loop.call_later(self.head_seconds, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_timeout(self) -> None:
        self._deadline = None
        if not self._has_request:
            self._refuse(408, "Request Timeout", "no request came in time")

    def _refuse(self, status: int, reason: str, sentence: str) -> None:
        """Send an error reply by hand, since there is no request to answer, and close."""
        body = f'{{"error": "{sentence}"}}'
        head = (
            f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        if not self.transport.is_closing():
            self.transport.write((head + body).encode())
            if self.transport.get_write_buffer_size():
                self._start_read_timer()
            self.transport.close()


def _limit_unsent(transport: asyncio.Transport) -> None:
    """Let the system take little in advance, so that the write buffer shrinks as a client reads."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)  # Windows has none
    connection = transport.get_extra_info("socket")
    if option is not None and connection is not None:
        with suppress(OSError):  # not over TCP
            connection.setsockopt(socket.IPPROTO_TCP, option, MAX_UNSENT)
