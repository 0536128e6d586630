"""Connections that say nothing: they are closed, and there is an end to their number.

Until the head of a request has come, nobody knows who asks: no token was seen. uvicorn waits for it
as long as it takes, so whoever opens connections and sends a letter now and then could hold all
that a system allows.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""For the head of a request to arrive, from the connection or from its first byte."""
MAX_CONNECTIONS = 500
"""Of a server; about half of the files that systems let a process open."""


class LimitedConnection(H11Protocol):
    """A connection of uvicorn that is closed if no request comes."""

    head_seconds = HEAD_SECONDS
    max_connections = MAX_CONNECTIONS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        """Take the connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(503, "Service Unavailable", "there are too many connections")
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes; once a request is there, it has the time that it takes."""
        super().data_received(data)
        if self._is_asked:
            self._stop_waiting()
        elif self._deadline is None and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _is_asked(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(self.head_seconds, self._too_late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        if not self._is_asked:
            self._refuse(408, "Request Timeout", "no request came in time")

    def _refuse(self, status: int, reason: str, sentence: str) -> None:
        """Say why, and close; there is no request that it could be the answer to."""
        body = f'{{"error": "{sentence}"}}'
        head = (
            f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        if not self.transport.is_closing():
            self.transport.write((head + body).encode())
            self.transport.close()
