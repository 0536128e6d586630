"""Requests to an application without a server: every byte and header is the test's own."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unitail.web.replies import App, Message

HOST = {"host": "localhost:8000"}


@dataclass(frozen=True)
class Reply:
    """What an application answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        """The sentence of a refusal."""
        return str(json.loads(self.body)["error"])


def ask(
    app: App,
    method: str = "GET",
    path: str = "/",
    headers: Mapping[str, str] = HOST,
    body: Sequence[bytes] = (),
    *,
    stalls: bool = False,
) -> Reply:
    """Send a request whose body comes in pieces; one that stalls never sends the last."""
    target, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": target,
        "raw_path": target.encode(),
        "query_string": query.encode(),
        "headers": header_lines(headers),
        "scheme": "http",
        "http_version": "1.1",
        "asgi": {"version": "3.0"},
    }
    return asyncio.run(_ask(app, scope, list(body), stalls))


def header_lines(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Write headers as servers hand them over."""
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]


async def _ask(app: App, scope: dict[str, Any], pieces: list[bytes], stalls: bool) -> Reply:
    waiting: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    if not stalls:
        waiting.append({"type": "http.request", "body": b"", "more_body": False})
    sent: list[Message] = []

    async def receive() -> Message:
        if waiting:
            return waiting.pop(0)
        await asyncio.sleep(30)
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    return Reply(
        start["status"],
        {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
    )


async def connect(app: App, headers: Mapping[str, str]) -> list[Message]:
    """Ask for a websocket, and return what the application sends."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/", "headers": header_lines(headers)}
    await app(scope, receive, send)
    return sent
