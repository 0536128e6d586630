"""The interface between servers and applications (ASGI), as types and a few readers of it."""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def header(scope: Scope, name: str) -> str | None:
    """Return a header of a request; None if it is not there."""
    values = header_values(scope, name)
    return values[0] if values else None


def header_values(scope: Scope, name: str) -> list[str]:
    """Return a header as often as it was sent; names are in lower case."""
    wanted = name.encode("latin-1")
    return [value.decode("latin-1") for key, value in scope["headers"] if key == wanted]


async def send_json(
    send: Send, status: int, content: object, headers: Mapping[str, str] | None = None
) -> None:
    """Answer a request."""
    body = json.dumps(content).encode()
    await _send(send, status, body, {"content-type": "application/json", **(headers or {})})


async def send_html(send: Send, status: int, page: str) -> None:
    """Answer a request by a page."""
    await _send(send, status, page.encode(), {"content-type": "text/html; charset=utf-8"})


async def _send(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    sent = {"content-length": str(len(body)), **headers}
    lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
