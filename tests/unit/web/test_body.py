"""How much of a body is read that is refused, and how its sender is told to stop."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from helpers.asgi import HOST, header_lines
from unitail.web.access import Access
from unitail.web.body import BodyLimits
from unitail.web.guards import Guards
from unitail.web.replies import Message, Receive, Scope, Send

TOKEN = "a-token-of-24-characters"
KNOWN = {**HOST, "authorization": f"Bearer {TOKEN}"}
LENGTH = {"content-length": str(2**40)}
PIECE = 10


async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive())["more_body"]:
        pass


class Sender:
    """Sends a body without end, or until it stalls, and counts what is asked for."""

    def __init__(self, stalls_after: int | None = None, pieces: int = 10**9) -> None:
        self.asked, self._stalls_after, self._pieces = 0, stalls_after, pieces

    async def receive(self) -> Message:
        self.asked += 1
        if self.asked - 1 == self._stalls_after:
            await asyncio.sleep(5)
            raise AssertionError("it was waited for")
        await asyncio.sleep(0)
        more = self.asked < self._pieces
        return {"type": "http.request", "body": PIECE * b"x", "more_body": more}


def refused(sender: Sender, headers: Mapping[str, str], seconds: float = 5) -> tuple[int, bool]:
    """Return the status, and whether the connection is closed."""
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b""}
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    limits = BodyLimits(max_bytes=25, max_form_bytes=0, max_seconds=seconds)
    app = Guards(read_all, access=Access.at("127.0.0.1", token=TOKEN), limits=limits)
    asyncio.run(app({**scope, "headers": header_lines(headers)}, sender.receive, send))
    answered = {name.lower(): value for name, value in sent[0]["headers"]}
    return sent[0]["status"], answered.get(b"connection") == b"close"


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_them(**values: float) -> None:
        for name, value in values.items():
            monkeypatch.setattr(f"unitail.web.body.{name}", value)

    set_them(MAX_DRAINED=100, MAX_DRAINED_OF_STRANGERS=50)
    set_them(DRAIN_SECONDS=0.5, STRANGER_SECONDS=0.5)
    return set_them


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize(
    ("headers", "status", "pieces"),
    [
        ({**KNOWN, **LENGTH}, 413, 10),
        ({**KNOWN, "content-length": "many"}, 400, 10),
        ({**KNOWN, "content-length": "1", "transfer-encoding": "chunked"}, 400, 10),
        ({**KNOWN, "transfer-encoding": "chunked"}, 413, 3 + 10),
        ({**KNOWN, "transfer-encoding": "chunked", "expect": "100-continue"}, 413, 3 + 10),
        ({**KNOWN, **LENGTH, "expect": "100-continue"}, 413, 0),
        ({**HOST, **LENGTH}, 401, 5),
        ({**HOST, **LENGTH, "expect": "100-continue"}, 401, 0),
        ({**KNOWN, **LENGTH, "origin": "https://evil.example"}, 403, 5),
    ],
)
def test_no_more_is_read_than_allowed_and_then_the_connection_ends(
    headers: dict[str, str], status: int, pieces: int
) -> None:
    sender = Sender()
    assert refused(sender, headers) == (status, True)
    assert sender.asked == pieces


@pytest.mark.usefixtures("limits")
def test_a_connection_stays_where_all_was_read_or_nothing_comes() -> None:
    sender = Sender(pieces=3)
    assert refused(sender, {**HOST, "content-length": "30"}) == (401, False)
    assert sender.asked == 3
    sender = Sender()
    assert refused(sender, HOST) == (401, False)
    assert sender.asked == 0


def test_strangers_hold_a_request_for_less_time(limits: Callable[..., None]) -> None:
    limits(DRAIN_SECONDS=60, STRANGER_SECONDS=0.05)
    assert refused(Sender(stalls_after=1), {**HOST, **LENGTH}) == (401, True)
    limits(DRAIN_SECONDS=0.05, STRANGER_SECONDS=60)
    assert refused(Sender(stalls_after=1), {**KNOWN, **LENGTH}) == (413, True)


@pytest.mark.usefixtures("limits")
def test_of_a_body_that_stalled_nothing_more_is_waited_for() -> None:
    sender = Sender(stalls_after=1)
    assert refused(sender, {**KNOWN, "content-length": "20"}, seconds=0.05) == (408, True)
    assert sender.asked == 2
