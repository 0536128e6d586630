import http.client
import logging
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
import uvicorn
from uvicorn.server import ServerState

from helpers.connections import Clock, Pipe, connected, request, respond, serving
from helpers.studios import wait_until
from unitail.web.connections import LimitedConnection
from unitail.web.slow_readers import LOOK_SECONDS, READ_SECONDS

SECONDS, AMPLE = 0.4, 60.0
"""The time allowed in tests of a limit, and where it is none that is tested."""
MOST = 6
OK = bytes(2)
"""The answer to /2."""


class Hasty(LimitedConnection):
    head_seconds = SECONDS
    rest_seconds = AMPLE
    max_connections = MOST


@pytest.fixture(scope="module")
def server() -> Iterator[uvicorn.Server]:
    with serving(Hasty) as running:
        yield running


def all_of(one: socket.socket) -> bytes:
    """Read until the other side closes."""
    told = b""
    with suppress(ConnectionResetError):  # it closed while something was on its way
        while piece := one.recv(100_000):
            told += piece
    return told


def is_answered(server: uvicorn.Server) -> bool:
    connection = http.client.HTTPConnection(*server.servers[0].sockets[0].getsockname(), timeout=60)
    connection.request("GET", "/2")
    reply = connection.getresponse()
    good = (reply.status, reply.read()) == (200, OK)
    connection.close()
    return good


def test_a_head_that_never_ends_is_given_up_and_others_are_answered(server: uvicorn.Server) -> None:
    with connected(server) as silent, connected(server) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        wait_until(lambda: is_answered(server))
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
    server: uvicorn.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hasty, "head_seconds", AMPLE)
    with connected(server) as one:
        for _ in range(2):  # an answered request, and a pause, cost nothing
            one.sendall(request("/2"))
            told = b""
            while not told.endswith(b"\r\n\r\n" + OK):
                piece = one.recv(100_000)
                assert piece, told
                told += piece
            monkeypatch.setattr(Hasty, "head_seconds", SECONDS)  # from the second request on
            time.sleep(1.5 * SECONDS)
        one.sendall(b"GET / HT")
        assert all_of(one).startswith(b"HTTP/1.1 408")


def test_connections_beyond_the_limit_are_told_and_room_is_found_again(
    server: uvicorn.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        monkeypatch.setattr(Hasty, "head_seconds", AMPLE)
        for _ in range(MOST):
            stack.enter_context(connected(server))
        with connected(server) as beyond:
            told = all_of(beyond)
        assert told.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert told.endswith(b'{"error": "there are too many connections"}')
    wait_until(lambda: is_answered(server))  # once they have gone
    with ExitStack() as stack:
        monkeypatch.setattr(Hasty, "head_seconds", SECONDS)
        for silent in [stack.enter_context(connected(server)) for _ in range(MOST)]:
            all_of(silent)
        wait_until(lambda: is_answered(server))  # once they were closed


POST = b"POST /2 HTTP/1.1\r\nHost: localhost\r\n"


def answer_of(one: socket.socket) -> bytes:
    """Read up to the end of an answer to /2."""
    told = b""
    while not told.endswith(b"\r\n\r\n" + OK):
        piece = one.recv(1000)
        assert piece, told
        told += piece
    return told


@pytest.mark.parametrize("ends", [b"", b"GET / HT"])
def test_a_body_that_comes_after_its_answer_is_no_head(
    server: uvicorn.Server, ends: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes after the body may be one: then it has its time, else the connection is idle."""
    wait_until(lambda: not server.server_state.connections)
    monkeypatch.setattr(Hasty, "head_seconds", AMPLE)
    with connected(server) as one:
        one.sendall(POST + b"Content-Length: 10\r\n\r\n12345")
        assert answer_of(one).startswith(b"HTTP/1.1 200")
        one.sendall(b"67")
        time.sleep(SECONDS / 4)
        monkeypatch.setattr(Hasty, "head_seconds", SECONDS)  # from what comes after the body on
        one.sendall(b"890" + ends)
        if ends:
            assert all_of(one).startswith(b"HTTP/1.1 408")
        else:
            time.sleep(2 * SECONDS)
            [connection] = server.server_state.connections
            assert connection._deadline is None  # type: ignore[union-attr]
            one.sendall(request("/2"))
            assert answer_of(one).startswith(b"HTTP/1.1 200")


def test_a_body_that_never_ends_after_its_answer_is_given_up(
    server: uvicorn.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hasty, "head_seconds", AMPLE)
    monkeypatch.setattr(Hasty, "rest_seconds", SECONDS)
    with connected(server) as one:
        one.sendall(POST + b"Content-Length: 1000\r\n\r\n1")
        assert answer_of(one)
        with suppress(ConnectionError):
            for _ in range(60):
                one.sendall(b"1")
                if select.select([one], [], [], SECONDS / 4)[0]:
                    break
            else:
                raise AssertionError("it was never given up")
        assert all_of(one) == b""  # another answer would be taken for that of the next request


def test_an_idle_connection_is_closed_also_after_a_late_body(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Hasty, "head_seconds", AMPLE)
    with serving(Hasty, keep_alive=1) as server, connected(server) as one:
        one.sendall(POST + b"Content-Length: 5\r\n\r\n")
        assert answer_of(one)
        one.sendall(b"12345")
        assert all_of(one) == b""


@pytest.mark.parametrize("begins", [b"5\r\n12345\r\n", b""])
def test_a_wrong_chunk_after_the_answer_closes_without_an_error_in_the_log(
    server: uvicorn.Server,
    begins: bytes,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Hasty, "head_seconds", AMPLE)
    with caplog.at_level(logging.ERROR), connected(server) as one:
        one.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n" + begins)
        assert answer_of(one)
        one.sendall(b"zz\r\n")
        assert all_of(one) == b""
        wait_until(lambda: not server.server_state.connections)
    assert caplog.messages == []


def test_what_is_not_http_is_told(server: uvicorn.Server) -> None:
    with connected(server) as one:
        one.sendall(b"\0\r\n\r\n")
        assert all_of(one).startswith(b"HTTP/1.1 400 ")


class Alone:
    """A connection without a server, whose client reads nothing."""

    def __init__(self, most: int = 1) -> None:
        self.clock, self.pipe = Clock(), Pipe()
        config = uvicorn.Config(respond, http=LimitedConnection, log_level="critical")
        self.connection = LimitedConnection(config, ServerState(), {}, self.clock)  # type: ignore[arg-type]
        self.connection.max_connections = most
        self.connection.connection_made(self.pipe)

    def is_cut_in_time(self) -> bool:
        """Let the time for reading pass; return whether the connection ends, without a timer."""
        self.clock.advance(READ_SECONDS + 2 * LOOK_SECONDS)
        if self.pipe.is_cut:
            self.connection.connection_lost(None)
        return self.pipe.is_cut and not self.clock.waiting


def test_error_replies_that_are_not_read_hold_no_connection_and_no_timer() -> None:
    refused, late, garbled = Alone(most=0), Alone(), Alone()
    late.clock.advance(late.connection.head_seconds)
    garbled.connection.data_received(b"\0\r\n\r\n")
    for alone, status in ((refused, b"503"), (late, b"408"), (garbled, b"400")):
        assert alone.pipe.written.startswith(b"HTTP/1.1 " + status)
        assert alone.pipe.is_closed
        assert not alone.pipe.is_cut
        assert alone.is_cut_in_time()


def test_a_connection_that_ends_leaves_no_timer() -> None:
    alone = Alone()
    alone.connection.data_received(b"GET / HT")
    assert alone.clock.waiting
    alone.connection.connection_lost(None)
    assert not alone.clock.waiting
