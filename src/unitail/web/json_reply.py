"""Answers in JSON, written so that other requests need not wait for a large one.

A call of `json.dumps` holds all of Python until it is done, in whatever thread it runs. So long
lists are written in pieces, and others have their turn in between. It is meant for a thread.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from starlette.responses import Response

PIECE = 16
"""Members of a list that are written at once, ..."""
PLAIN_PIECE = 4096
"""... or this many if they are numbers and short texts."""


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
