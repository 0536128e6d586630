"""How many requests are at work: more than a service can carry are told to try again later."""

import time
from dataclasses import dataclass, field

from unitail.service.metrics import Metrics
from unitail.web.asgi import App, Message, Receive, Scope, Send, send_json
from unitail.web.refusal import Refusal

WORK = ("/v1/", "/label-studio/")
"""Paths of work; health, readiness and metrics are answered whatever the load."""
RETRY_SECONDS = 1


@dataclass(eq=False)
class Admission:
    """An application that takes on so many requests at a time, and counts them."""

    app: App
    metrics: Metrics
    limit: int
    at_work: int = field(default=0, init=False)
    closing: bool = field(default=False, init=False)
    """Whether connections are closed after their answer, since the server stops."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or send it away."""
        if scope["type"] != "http" or not scope["path"].startswith(WORK):
            await self.app(scope, receive, send)
        elif self.at_work >= self.limit:
            self.metrics.shed.inc()
            refusal = overloaded(f"{self.at_work} at work", f"at most {self.limit} at a time")
            self.metrics.count_request("shed", refusal.status, 0.0)
            await send_json(send, refusal.status, refusal.content, refusal.headers)
        else:
            await self._work(scope, receive, send)

    async def _work(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self.closing:
                    message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
            await send(message)

        self.at_work += 1
        self.metrics.at_work.set(self.at_work)
        try:
            await self.app(scope, receive, watched)
        finally:
            self.at_work -= 1
            self.metrics.at_work.set(self.at_work)
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.count_request(route, status, time.perf_counter() - start)


def overloaded(got: str, allowed: str) -> Refusal:
    """Return the refusal of a request that came when there was too much to do."""
    return Refusal(
        503,
        "there is too much to do at the moment",
        got=got,
        allowed=allowed,
        remedy=f"Try again in {RETRY_SECONDS} s.",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )
