"""Limits the number of requests in progress; those beyond it are told to try again later.

A request is in progress until its answer is handed over to be sent. Its bytes and those of the
answer count until the answer has been read, but for the little that waits in buffers.
"""

import time
from dataclasses import dataclass, field

from unitail.service.limits import ServiceLimits
from unitail.service.metrics import Metrics
from unitail.web.body import BodyLimits
from unitail.web.replies import App, Message, Receive, Refusal, Scope, Send, header, send_json

WORK = ("/v1/", "/label-studio/")
"""Paths that count as work; health, readiness and metrics are answered whatever the load."""
RETRY_SECONDS = 1
CLIENT_GONE = 499
"""What counts as status, as in nginx, where a client left before it was answered."""


@dataclass(eq=False)
class Admission:
    """ASGI middleware that admits a limited number of requests and bytes, and counts them."""

    app: App
    metrics: Metrics
    limits: ServiceLimits
    body_limits: BodyLimits
    at_work: int = field(default=0, init=False)
    bytes_at_work: int = field(default=0, init=False)
    """Announced body sizes of all requests whose answer was not read, and sizes of the answers."""
    closing: bool = field(default=False, init=False)
    """Whether the server is stopping, and connections are closed after their answers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it if there are too many."""
        if scope["type"] != "http" or not scope["path"].startswith(WORK):
            await self.app(scope, receive, send)
            return
        size = self._bytes_of(scope)
        refusal = self._refusal(size)
        if refusal is None:
            await self._work(scope, receive, send, size)
        else:
            self.metrics.shed.inc()
            self.metrics.count_request("shed", refusal.status)
            await send_json(send, refusal.status, refusal.content, refusal.headers)

    def _bytes_of(self, scope: Scope) -> int:
        """Return the announced body size; for a chunked body, the largest that is allowed."""
        length = header(scope, "content-length")
        if length is not None:
            return int(length)  # `Guards` has checked that these are digits
        is_chunked = header(scope, "transfer-encoding") is not None
        return self.body_limits.bytes_for(scope) if is_chunked else 0

    def _refusal(self, size: int) -> Refusal | None:
        limit = self.limits.concurrency
        if self.at_work >= limit:
            return overloaded(f"{self.at_work} requests in progress", f"at most {limit}")
        # A single request is always admitted: its size has its own limit.
        if self.bytes_at_work and self.bytes_at_work + size > self.limits.bytes_at_work:
            got = f"{self.bytes_at_work + size:,} bytes in all requests and answers"
            return overloaded(got, f"at most {self.limits.bytes_at_work:,}")
        return None

    async def _work(self, scope: Scope, receive: Receive, send: Send, size: int) -> None:
        start, end, status = time.perf_counter(), 0.0, 0

        def finish() -> None:
            nonlocal end
            if not end:
                end = time.perf_counter()
                self._count_at_work(-1)

        async def heard() -> Message:
            nonlocal status
            message = await receive()
            if message["type"] == "http.disconnect":
                status = status or CLIENT_GONE  # whatever is answered to nobody
            return message

        async def watched(message: Message) -> None:
            nonlocal size, status
            if message["type"] == "http.response.start":
                status = status or message["status"]
                message = self._last_if_closing(message)
            else:
                length = len(message.get("body", b""))
                self.bytes_at_work, size = self.bytes_at_work + length, size + length
                if not message.get("more_body", False):
                    # The server takes a message without waiting until it is read, but not the next.
                    await send({**message, "more_body": True})
                    finish()  # slow readers hold bytes, but no place that others could have
                    message = {"type": message["type"], "body": b""}
            await send(message)

        self._count_at_work(1)
        self.bytes_at_work += size
        try:
            await self.app(scope, heard, watched)
        finally:
            finish()
            self.bytes_at_work -= size
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.count_request(route, status or 500, end - start)

    def _last_if_closing(self, message: Message) -> Message:
        """Let the connection be closed after this answer, if the server is stopping."""
        if not self.closing:
            return message
        return {**message, "headers": [*message.get("headers", []), (b"connection", b"close")]}

    def _count_at_work(self, more: int) -> None:
        self.at_work += more
        self.metrics.at_work.set(self.at_work)


def overloaded(got: str, allowed: str) -> Refusal:
    """Return the refusal of a request that comes when the service is overloaded."""
    return Refusal(
        503,
        "the service is overloaded at the moment",
        got=got,
        allowed=allowed,
        remedy=f"Try again in {RETRY_SECONDS} s.",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )
