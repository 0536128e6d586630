"""Closes connections on which no request arrives in time, and limits the number of connections.

Before the head of a request has arrived, no token can be checked. uvicorn waits for it forever, so
a client that opens connections and sends a byte now and then could use up all that a system allows.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""Time for the head of a request to arrive, counted from the connection or from its first byte."""
MAX_CONNECTIONS = 500
"""Connections of a server: about half of the files that a process may usually open."""


class LimitedConnection(H11Protocol):
    """A uvicorn connection that is closed if no request arrives."""

    head_seconds = HEAD_SECONDS
    max_connections = MAX_CONNECTIONS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        """Accept the connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(503, "Service Unavailable", "there are too many connections")
        else:
            self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Process bytes; once a request has arrived, its time is no longer limited here."""
        super().data_received(data)
        if self._has_request:
            self._stop_timer()
        elif self._deadline is None and not self.transport.is_closing():
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer of a closed connection."""
        self._stop_timer()
        super().connection_lost(exc)

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
            self.transport.close()
