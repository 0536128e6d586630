"""Replies: refusals with an HTTP status, in the form of all our errors, and JSON in pieces.

A call of `json.dumps` holds Python's global lock until it is done, in whatever thread it runs. So
long lists are written in pieces, and other threads can run in between.

The types are those of ASGI, the interface between servers and applications.
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
"""Number of list members written in one piece."""
PLAIN_PIECE = 4096
"""The same for lists of numbers or short texts."""


def header(scope: Scope, name: str) -> str | None:
    """Return the first value of a request header; None if there is none."""
    values = header_values(scope, name)
    return values[0] if values else None


def header_values(scope: Scope, name: str) -> list[str]:
    """Return all values of a request header, whose name is given in lower case."""
    encoded = name.encode("latin-1")
    return [value.decode("latin-1") for key, value in scope["headers"] if key == encoded]


async def send_json(
    send: Send, status: int, content: object, headers: Mapping[str, str] | None = None
) -> None:
    """Answer a request with JSON."""
    body = json.dumps(content).encode()
    await _send(send, status, body, {"content-type": "application/json", **(headers or {})})


async def send_html(send: Send, status: int, page: str) -> None:
    """Answer a request with a page."""
    await _send(send, status, page.encode(), {"content-type": "text/html; charset=utf-8"})


async def _send(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    headers = {"content-length": str(len(body)), **headers}
    lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


class Refusal(UserError):
    """A request is refused, with status 4xx or 503 and one sentence."""

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
        """The content of the reply's JSON body."""
        return {"error": str(self)}


class JsonReply(Response):
    """A JSON reply, serialised when it is created: large ones should be created in a thread."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """Return the content as JSON; values that JSON does not have, such as NaN, raise."""
        return "".join(_pieces(content)).encode()


def _pieces(content: object) -> Iterable[str]:
    if isinstance(content, dict):
        members = ((_dumps(str(name)), ":", *_pieces(value)) for name, value in content.items())
        return _joined("{", members, "}")
    if isinstance(content, list | tuple) and len(content) > PIECE:
        return _joined("[", ([_dumps(chunk)[1:-1]] for chunk in _chunks(content)), "]")
    return [_dumps(content)]


def _joined(begin: str, members: Iterable[Iterable[str]], end: str) -> Iterator[str]:
    yield begin
    for number, member in enumerate(members):
        yield from chain([","] if number else [], member)
    yield end


def _chunks(members: Sequence[Any]) -> Iterator[Sequence[Any]]:
    is_plain = not isinstance(members[0], dict | list | tuple)
    size = PLAIN_PIECE if is_plain else PIECE
    for start in range(0, len(members), size):
        yield members[start : start + size]


def _dumps(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
