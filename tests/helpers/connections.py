"""A server whose connections have short limits, and clients that read at a given rate.

Then a transport and a clock for connections without a server.
"""

import heapq
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from unitail.web.connections import LimitedConnection
from unitail.web.replies import Receive, Scope, Send

STEP = 66 * 2**10
"""Bytes that Linux takes at a time while a client reads slowly."""


async def respond(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer /SIZE with that many bytes, /SIZE/COUNT with that many pieces, /SIZE/fail in part."""
    size, _, rest = scope["path"].strip("/").partition("/")
    pieces = int(rest) if rest.isdigit() else 1
    length = str(int(size) * pieces + (rest == "fail")).encode()
    headers = [(b"content-length", length)]
    if rest == "close":
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for number in range(pieces):
        more = number + 1 < pieces or rest == "fail"
        await send({"type": "http.response.body", "body": bytes(int(size)), "more_body": more})
    if rest == "fail":
        raise RuntimeError("a bug")


@contextmanager
def serving(protocol: type[LimitedConnection], *, keep_alive: int = 5) -> Iterator[uvicorn.Server]:
    """Run a server with connections of a kind."""
    config = uvicorn.Config(
        respond,
        port=0,
        http=protocol,
        log_level="critical",
        lifespan="off",
        ws="none",
        timeout_keep_alive=keep_alive,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield server
    server.should_exit = server.force_exit = True
    thread.join(10)


def connected(server: uvicorn.Server, *paths: str, buffer: int | None = None) -> socket.socket:
    """Connect and ask for paths; a small buffer makes the system hold little for the client."""
    one = socket.socket()
    if buffer is not None:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    one.settimeout(60)
    one.connect(server.servers[0].sockets[0].getsockname())
    one.sendall(b"".join(request(path) for path in paths))
    return one


def request(path: str) -> bytes:
    """Return a request without a body."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def read_steadily(clients: Sequence[socket.socket], rate: float, seconds: float) -> list[int]:
    """Read from each at a rate; return how many bytes each got, fewer if it was cut off."""
    start, got, is_open = time.monotonic(), [0] * len(clients), [True] * len(clients)
    for client in clients:
        client.setblocking(False)
    while (elapsed := time.monotonic() - start) < seconds and any(is_open):
        for place, client in enumerate(clients):
            due = int(rate * elapsed) - got[place]
            try:
                piece = client.recv(due) if due > 0 and is_open[place] else None
            except BlockingIOError:
                continue
            except ConnectionResetError:
                piece = b""
            if piece is not None:
                got[place] += len(piece)
                is_open[place] = bool(piece)
        time.sleep(0.02)
    return got


def read_rest(client: socket.socket, length: int) -> int:
    """Read this many bytes as fast as they come, or up to the end; return how many came."""
    client.settimeout(60)
    count = 0
    while count < length:
        try:
            piece = client.recv(2**20)
        except ConnectionResetError:
            break
        if not piece:
            break
        count += len(piece)
    return count


@dataclass
class _Timer:
    call: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """The timers of an event loop, and its time, which the test moves on."""

    def __init__(self) -> None:
        self.now, self._timers, self._count = 0.0, list[Any](), 0

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> "_Timer":
        self._count += 1
        timer = _Timer(call)
        heapq.heappush(self._timers, (self.now + seconds, self._count, timer))
        return timer

    @property
    def waiting(self) -> int:
        """The number of timers that were not cancelled."""
        return sum(not timer.is_cancelled for *_, timer in self._timers)

    def advance(self, seconds: float, held_up: float = 0.0) -> None:
        """Run what is due in these seconds; the loop may be held up before."""
        end = self.now + seconds
        self.now += held_up
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            if not timer.is_cancelled:
                timer.call()
        self.now = max(self.now, end)


class Pipe:
    """A transport from which the test takes bytes."""

    def __init__(self) -> None:
        self.unsent, self.is_closed, self.is_cut = 0, False, False
        self.written = b""

    def write(self, data: bytes) -> None:
        self.unsent += len(data)
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str) -> None:
        return None

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.unsent, self.is_cut, self.is_closed = 0, True, True
