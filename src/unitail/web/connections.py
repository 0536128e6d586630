"""Closes connections on which nothing goes forward, and limits the number of connections.

Before the head of a request has arrived, no token can be checked. uvicorn waits for it forever, so
a client that opens connections and sends a byte now and then could use up all that a system allows.
The same holds for what is left of a body that was answered before its end. How fast answers must be
read is the matter of `slow_readers`.
"""

import asyncio
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from unitail.web.slow_readers import ReadingPace, ReadingWatch

HEAD_SECONDS = 10.0
"""Time for the head of a request to arrive, counted from the connection or from its first byte."""
REST_SECONDS = 30.0
"""Time for the rest of a body to arrive, counted from the first byte after its answer."""
MAX_CONNECTIONS = 500
"""Connections of a server: about half of the files that a process may usually open."""


class LimitedConnection(H11Protocol):
    """A uvicorn connection that is closed if something does not come in time.

    That is a request, the reading of its answer, or the rest of a body that was answered early.
    """

    head_seconds = HEAD_SECONDS
    rest_seconds = REST_SECONDS
    pace = ReadingPace()
    max_connections = MAX_CONNECTIONS
    _deadline: asyncio.TimerHandle | None = None
    _reading: ReadingWatch

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        """Accept the connection, unless there are too many."""
        self._reading = ReadingWatch(transport, self.pace, self.loop)
        super().connection_made(cast("asyncio.Transport", self._reading.transport))
        if len(self.connections) > self.max_connections:
            self._refuse(503, "Service Unavailable", "there are too many connections")
        else:
            self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Process bytes, and limit the time for the head or the rest that is to follow."""
        state = self.conn.their_state
        super().data_received(data)
        if self._has_request or self.conn.their_state is not state:
            self._stop_timer()
        if self._has_request or self.transport.is_closing():
            return
        if self._is_between_requests:
            self._limit_pause()
        elif self._deadline is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers of a closed connection."""
        self._stop_timer()
        self._reading.stop()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP; close only, if the request has an answer already."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
        if self.cycle is not None:  # an answer that is still to come has nowhere to go
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    @property
    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _is_between_requests(self) -> bool:
        """Whether a request has ended, and nothing of the next has arrived."""
        return self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def _limit_pause(self) -> None:
        """Wait for the next request as after an answer: uvicorn stopped waiting at these bytes."""
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def _start_timer(self) -> None:
        is_head = self.conn.their_state is h11.IDLE
        seconds = self.head_seconds if is_head else self.rest_seconds
        self._deadline = self.loop.call_later(seconds, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_timeout(self) -> None:
        self._deadline = None
        if self._has_request:
            return
        if self.conn.their_state is h11.IDLE:
            self._refuse(408, "Request Timeout", "no request came in time")
        else:
            self.transport.close()  # its request has been answered

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
