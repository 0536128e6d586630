"""Who is cut off: by the rule, on a clock of the test's own, and by a server on real sockets."""

import sys
import time
from collections.abc import Iterator

import pytest
import uvicorn

from helpers.connections import (
    STEP,
    Clock,
    Pipe,
    connected,
    read_rest,
    read_steadily,
    request,
    serving,
)
from helpers.studios import wait_until
from unitail.web import slow_readers
from unitail.web.connections import LimitedConnection
from unitail.web.slow_readers import (
    LOOK_SECONDS,
    MAX_PATIENCE,
    MIN_RATE,
    READ_SECONDS,
    ReadingPace,
    ReadingWatch,
)


class Reading:
    """A client under watch: bytes are taken in steps, as Linux does, or in large ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, limited: bool = True) -> None:
        monkeypatch.setattr(slow_readers, "_limit_unsent", lambda transport: limited)
        self.clock, self.pipe = Clock(), Pipe()
        watch = ReadingWatch(self.pipe, ReadingPace(), self.clock)  # type: ignore[arg-type]
        self.watch, self.write = watch, watch.transport.write

    def read(self, rate: float, seconds: float, step: int = STEP) -> None:
        """Read at a rate, until cut off or all is taken."""
        end = self.clock.now + seconds
        while self.clock.now < end and self.pipe.unsent:
            self.clock.advance(min(step / rate, end - self.clock.now) if rate else seconds)
            if rate:
                self.pipe.unsent = max(self.pipe.unsent - step, 0)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(monkeypatch)


def test_who_reads_nothing_is_cut_off_after_the_time_for_it(reading: Reading) -> None:
    reading.write(bytes(10))
    reading.clock.advance(READ_SECONDS - 1)
    assert not reading.pipe.is_cut
    reading.clock.advance(2 * LOOK_SECONDS)
    assert reading.pipe.is_cut
    assert not reading.clock.waiting


@pytest.mark.parametrize("rate", [1.05 * MIN_RATE, 2 * MIN_RATE, 100 * MIN_RATE])
def test_who_reads_steadily_gets_everything(reading: Reading, rate: float) -> None:
    reading.write(bytes(10**7))
    reading.read(rate, 3600)
    assert not reading.pipe.is_cut
    assert not reading.pipe.unsent
    reading.clock.advance(LOOK_SECONDS)
    assert not reading.clock.waiting


@pytest.mark.parametrize("rate", [MIN_RATE / 8, MIN_RATE / 4, MIN_RATE / 2])
def test_who_reads_too_little_is_cut_off_soon(reading: Reading, rate: float) -> None:
    reading.write(bytes(10**7))
    reading.read(rate, 4 * READ_SECONDS)
    assert reading.pipe.is_cut


def test_what_was_read_fast_gives_patience_up_to_a_limit(reading: Reading) -> None:
    reading.write(bytes(10**7))
    reading.read(10**6, 5)
    reading.clock.advance(MAX_PATIENCE - LOOK_SECONDS)
    assert not reading.pipe.is_cut
    reading.clock.advance(3 * LOOK_SECONDS)
    assert reading.pipe.is_cut


def test_who_reads_fast_and_then_steadily_in_large_steps_gets_everything(reading: Reading) -> None:
    reading.write(bytes(2 * 10**7))
    reading.read(10**6, 8)
    reading.read(1.05 * MIN_RATE, 3600, step=480 * 2**10)
    assert not reading.pipe.is_cut
    assert not reading.pipe.unsent


def test_little_that_was_read_gives_little_patience(reading: Reading) -> None:
    reading.write(bytes(10**7))
    reading.read(10**6, STEP / 10**6)
    reading.clock.advance(READ_SECONDS + STEP / MIN_RATE + 2 * LOOK_SECONDS)
    assert reading.pipe.is_cut


def test_a_large_answer_after_a_small_rest_counts_by_what_is_taken(reading: Reading) -> None:
    """The buffer grows, though the client reads: it is no measure of what was read."""
    for size in (200, 5 * STEP, 200):
        reading.write(bytes(size))
        reading.read(2 * MIN_RATE, LOOK_SECONDS / 2)
    reading.write(bytes(10**6))
    reading.read(2 * MIN_RATE, 3600)
    assert not reading.pipe.is_cut


def test_once_all_was_read_the_time_begins_anew(reading: Reading) -> None:
    for _ in range(5):
        reading.write(bytes(10))
        reading.clock.advance(READ_SECONDS - LOOK_SECONDS - 1)
        reading.pipe.unsent = 0
        reading.clock.advance(LOOK_SECONDS)
        assert not reading.clock.waiting
    assert not reading.pipe.is_cut


def test_a_closed_connection_is_looked_at_no_more(reading: Reading) -> None:
    reading.write(bytes(10))
    reading.watch.stop()
    assert not reading.clock.waiting
    reading.watch.stop()


def test_time_in_which_the_server_was_held_up_is_not_the_clients(reading: Reading) -> None:
    reading.write(bytes(10**6))
    reading.clock.advance(LOOK_SECONDS, held_up=10 * READ_SECONDS)
    assert not reading.pipe.is_cut
    reading.clock.advance(READ_SECONDS + LOOK_SECONDS)
    assert reading.pipe.is_cut


def test_a_system_that_takes_all_at_once_is_given_the_time_for_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Windows reports nothing between the first byte and the last."""
    for is_read in (True, False):
        reading = Reading(monkeypatch, limited=False)
        reading.write(bytes(100 * MIN_RATE))
        reading.clock.advance(50)
        reading.write(bytes(50 * MIN_RATE))
        reading.clock.advance(READ_SECONDS + 150 - 50 - 1)
        assert not reading.pipe.is_cut
        if is_read:
            reading.pipe.unsent = 0
        reading.clock.advance(2 * LOOK_SECONDS)
        assert reading.pipe.is_cut is not is_read
        assert not reading.clock.waiting


RATE, SECONDS = 80 * 2**10, 1.6
"""The limits of the server below: a step takes as long, measured by them, as in earnest."""
LARGE = 16 * 2**20
"""Bytes of an answer that no buffer between two sockets holds."""
SMALL_BUFFER = 4096
HEAD = 200
"""Bytes that the head of an answer may have."""
linux = pytest.mark.skipif(sys.platform != "linux", reason="the sizes are those of Linux's buffers")


class Hasty(LimitedConnection):
    head_seconds = 60.0
    max_connections = 50
    pace = ReadingPace(
        seconds=SECONDS,
        max_patience=SECONDS * MAX_PATIENCE / READ_SECONDS,
        min_rate=RATE,
        look_seconds=SECONDS / 10,
    )


@pytest.fixture(scope="module")
def server() -> Iterator[uvicorn.Server]:
    with serving(Hasty, keep_alive=60) as running:
        yield running


def is_gone(server: uvicorn.Server) -> bool:
    return not server.server_state.connections


@pytest.mark.parametrize(
    "path", [f"/{LARGE}", f"/{LARGE}/close", "/65536/256", "/2000000/8", f"/{LARGE}/fail"]
)
def test_a_client_that_does_not_read_is_cut_off(server: uvicorn.Server, path: str) -> None:
    with connected(server, path, path) as deaf:
        wait_until(lambda: not is_gone(server))
        wait_until(lambda: is_gone(server))
        assert read_rest(deaf, LARGE) < LARGE
    wait_until(lambda: not server.server_state.tasks)


@pytest.mark.slow
@pytest.mark.parametrize("path", [f"/{LARGE}", "/65536/256", f"/{LARGE}/close"])
def test_a_client_that_reads_steadily_gets_everything(server: uvicorn.Server, path: str) -> None:
    with connected(server, path, buffer=SMALL_BUFFER) as slow:
        [read] = read_steadily([slow], 2 * RATE, 3 * SECONDS)
        assert read < LARGE / 4  # most of it waited for several times the limit
        assert read + read_rest(slow, LARGE - read) >= LARGE


@linux
@pytest.mark.slow
def test_a_client_that_reads_fast_and_then_steadily_gets_everything(server: uvicorn.Server) -> None:
    """Its buffer is Linux's to size: it grows at first, and then the steps are large."""
    with connected(server, f"/{LARGE}") as one:
        read = read_rest(one, 2 * 2**20)
        [slowly] = read_steadily([one], 2 * RATE, 6 * SECONDS)
        read += slowly
        assert read < LARGE / 2
        assert read + read_rest(one, LARGE - read) >= LARGE


@pytest.mark.parametrize("rate", [RATE / 4, RATE / 8])
def test_a_client_that_reads_too_little_is_cut_off(server: uvicorn.Server, rate: float) -> None:
    with connected(server, f"/{LARGE}", buffer=SMALL_BUFFER) as slow:
        wait_until(lambda: not is_gone(server))
        start = time.monotonic()
        while not is_gone(server):
            read_steadily([slow], rate, 0.5)
            assert time.monotonic() - start < 20 * SECONDS
        assert time.monotonic() - start > SECONDS


def test_a_client_that_reads_a_part_and_then_nothing_is_cut_off(server: uvicorn.Server) -> None:
    with connected(server, f"/{LARGE}", buffer=SMALL_BUFFER) as one:
        read = read_rest(one, LARGE // 16)
        wait_until(lambda: is_gone(server))
        assert read + read_rest(one, LARGE) < LARGE


@linux
@pytest.mark.slow
def test_answers_in_a_row_cut_no_steady_reader_whatever_their_sizes(
    server: uvicorn.Server,
) -> None:
    """Somewhere in a step the first leaves but a little unsent when the second is written."""
    sizes = range(6 * STEP, 7 * STEP, STEP // 12)
    clients = [connected(server, f"/{size}", "/4000000", buffer=SMALL_BUFFER) for size in sizes]
    read = read_steadily(clients, 3 * RATE, 4 * SECONDS)
    for client, size, got in zip(clients, sizes, read, strict=True):
        assert got + read_rest(client, size + 4_000_000 - got) >= size + 4_000_000
        client.close()
    wait_until(lambda: is_gone(server))


def is_sent(server: uvicorn.Server, size: int) -> bool:
    """Return whether the system takes an answer as a whole that nobody reads."""
    with connected(server, f"/{size}", buffer=SMALL_BUFFER):
        wait_until(lambda: any(each.cycle for each in list(server.server_state.connections)))
        [one] = server.server_state.connections
        wait_until(lambda: one.cycle.response_complete)
        return one.transport.get_write_buffer_size() == 0


def largest_sent(server: uvicorn.Server) -> int:
    """Return the size of the largest answer that the system takes as a whole."""
    low, high = 2**16, 2**20
    while high - low > 1:
        size = (low + high) // 2
        low, high = (size, high) if is_sent(server, size) else (low, size)
        wait_until(lambda: is_gone(server))
    return low


@linux
@pytest.mark.slow
def test_an_error_reply_behind_an_answer_that_is_not_read_holds_no_connection(
    server: uvicorn.Server,
) -> None:
    """uvicorn closes after it, once it is sent: with all of the answer sent, no timer ran."""
    size = largest_sent(server)
    clients = [
        connected(server, f"/{size - less}", buffer=SMALL_BUFFER) for less in range(0, 400, 40)
    ]
    wait_until(lambda: len(server.server_state.connections) == len(clients))
    wait_until(lambda: all(each.cycle for each in list(server.server_state.connections)))
    for client in clients:
        client.sendall(b"\0 is no request\r\n\r\n")
    wait_until(lambda: is_gone(server))
    for client in clients:
        client.close()


@pytest.mark.parametrize("size", [150_000, 2_600_000])
def test_an_application_that_fails_within_its_answer_leaves_no_connection(
    server: uvicorn.Server, size: int
) -> None:
    with connected(server, f"/{size}/fail", buffer=SMALL_BUFFER):
        wait_until(lambda: not is_gone(server))
        wait_until(lambda: is_gone(server))


def test_an_idle_connection_stays_once_its_answer_was_read(server: uvicorn.Server) -> None:
    with connected(server, f"/{LARGE}") as one:
        for _ in range(2):
            assert read_rest(one, LARGE) >= LARGE
            time.sleep(1.5 * SECONDS)
            one.sendall(request(f"/{LARGE}"))
        assert read_rest(one, LARGE) >= LARGE
    wait_until(lambda: is_gone(server))
