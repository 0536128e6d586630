import http.client
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
import uvicorn

from helpers.studios import wait_until
from unitail.web.connections import LimitedConnection
from unitail.web.replies import Receive, Scope, Send

SECONDS = 0.4
LARGE = 16 * 2**20
"""Bytes of an answer that no buffer between two sockets holds."""
MOST = 6


class Hasty(LimitedConnection):
    head_seconds = SECONDS
    read_seconds = SECONDS
    max_connections = MOST


finished: list[str] = []
"""Large answers that the application has got rid of."""


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer any request, /large with a large answer."""
    if scope["type"] == "http" and scope["path"].startswith("/large"):
        length = str(LARGE).encode()
        headers = [(b"content-length", length)]
        if scope["path"] == "/large/close":
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        pieces = 256 if scope["path"] == "/large/pieces" else 1
        for number in range(pieces):
            more = number + 1 < pieces
            body = bytes(LARGE // pieces)
            await send({"type": "http.response.body", "body": body, "more_body": more})
        finished.append(scope["path"])
    elif scope["type"] == "http":
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
        )
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, http=Hasty, log_level="error", lifespan="off", ws="none")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(10)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def all_of(one: socket.socket) -> bytes:
    """Read until the other side closes."""
    told = b""
    with suppress(ConnectionResetError):  # it closed while something was on its way
        while piece := one.recv(100_000):
            told += piece
    return told


def is_answered(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/")
    reply = connection.getresponse()
    good = (reply.status, reply.read()) == (200, b"ok")
    connection.close()
    return good


def test_a_head_that_never_ends_is_given_up_and_others_are_answered(port: int) -> None:
    with connected(port) as silent, connected(port) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        wait_until(lambda: is_answered(port))
        for _ in range(60):  # a letter now and then changes nothing
            slow.sendall(b"X")
            if select.select([slow], [], [], SECONDS / 4)[0]:
                break
        else:
            raise AssertionError("it was never given up")
        for one in (silent, slow):
            told = all_of(one)
            assert told.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
            assert told.endswith(b'{"error": "no request came in time"}')


def test_the_next_head_of_a_connection_has_its_time_too(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hasty, "head_seconds", 60)
    with connected(port) as one:
        for _ in range(2):  # an answered request, and a pause, cost nothing
            one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            told = b""
            while not told.endswith(b"\r\n\r\nok"):
                piece = one.recv(100_000)
                assert piece, told
                told += piece
            monkeypatch.setattr(Hasty, "head_seconds", SECONDS)  # from the second request on
            time.sleep(1.5 * SECONDS)
        one.sendall(b"GET / HT")
        assert all_of(one).startswith(b"HTTP/1.1 408")


def test_connections_beyond_the_limit_are_told_and_room_is_found_again(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        monkeypatch.setattr(Hasty, "head_seconds", 60)
        for _ in range(MOST):
            stack.enter_context(connected(port))
        with connected(port) as beyond:
            told = all_of(beyond)
        assert told.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert told.endswith(b'{"error": "there are too many connections"}')
    wait_until(lambda: is_answered(port))  # once they have gone
    with ExitStack() as stack:
        monkeypatch.setattr(Hasty, "head_seconds", SECONDS)
        for silent in [stack.enter_context(connected(port)) for _ in range(MOST)]:
            all_of(silent)
        wait_until(lambda: is_answered(port))  # once they were closed


@pytest.mark.parametrize("path", ["/large", "/large/close"])
def test_a_client_that_does_not_read_its_answer_is_cut_off(port: int, path: str) -> None:
    finished.clear()
    with connected(port) as deaf:
        deaf.sendall(2 * f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        # The second answer waits for the first; once it ends, others have its place.
        wait_until(lambda: len(finished) == (1 if path.endswith("close") else 2))
        time.sleep(4 * SECONDS)
        read = len(all_of(deaf))
    assert read < LARGE


def test_a_client_that_reads_gets_all_of_a_large_answer_and_the_next(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(2):
        connection.request("GET", "/large")
        assert len(connection.getresponse().read()) == LARGE
        time.sleep(1.5 * SECONDS)  # what was read in time is no reason to close
    connection.close()


@pytest.mark.parametrize("path", ["/large", "/large/pieces", "/large/close"])
def test_a_client_that_reads_slowly_and_steadily_gets_everything(
    port: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hasty, "read_seconds", 1.0)
    with connected(port) as slow:
        slow.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        read = 0
        for _ in range(40):  # most of the answer waits in the server for several times its limit
            read += len(slow.recv(2**16))
            time.sleep(0.1)
        assert read < LARGE / 2
        while read < LARGE:
            piece = slow.recv(2**20)
            assert piece, read
            read += len(piece)
