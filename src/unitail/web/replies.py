"""Replies: refusals in the form of all our errors, with a status of HTTP, and JSON in pieces.

A call of `json.dumps` holds all of Python until it is done, in whatever thread it runs. So long
lists are written in pieces, and others have their turn in between. It is meant for a thread.

The types are those of the interface between servers and applications (ASGI).
"""

import json
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from itertools import chain
from typing import Any, TypeAlias

from starlette.responses import Response

from unitail.errors import UserError

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
PIECE = 16
"""Members of a list that are written at once, ..."""
PLAIN_PIECE = 4096
"""... or this many if they are numbers and short texts."""


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


class Refusal(UserError):
    """A request that is answered by a 4xx or 503 and one sentence."""

    remedy = "Correct the request and send it again."

    def __init__(
        self,
        status: int,
        wrong: str,
        *,
        got: object,
        allowed: str,
        remedy: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(wrong, got=got, allowed=allowed, remedy=remedy)
        self.status = status
        self.headers = dict(headers or {})

    @property
    def content(self) -> dict[str, str]:
        """What the body of the answer says."""
        return {"error": str(self)}


class JsonReply(Response):
    """A reply of JSON; it is written where it is made, which should be a thread."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """Write all pieces; what JSON does not know, such as NaN, is an error."""
        return "".join(_pieces(content)).encode()


def _pieces(content: object) -> Iterable[str]:
    if isinstance(content, dict):
        members = ((_whole(str(name)), ":", *_pieces(value)) for name, value in content.items())
        return _joined("{", members, "}")
    if isinstance(content, list | tuple) and len(content) > PIECE:
        return _joined("[", ([_whole(cut)[1:-1]] for cut in _cuts(content)), "]")
    return [_whole(content)]


def _joined(begin: str, members: Iterable[Iterable[str]], end: str) -> Iterator[str]:
    yield begin
    for number, member in enumerate(members):
        yield from chain([","] if number else [], member)
    yield end


def _cuts(members: Sequence[Any]) -> Iterator[Sequence[Any]]:
    plain = not isinstance(members[0], dict | list | tuple)
    size = PLAIN_PIECE if plain else PIECE
    for start in range(0, len(members), size):
        yield members[start : start + size]


def _whole(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
