import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from helpers.services import ASKED, Live, running, vector_classifier
from unitail.client import MAX_WAIT, Client, Refused
from unitail.errors import InvalidConfig


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with running({"blobs": vector_classifier()}) as service:
        yield service


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://localhost",
        "http://",
        "",
        "http://localhost:99999",
        "http://localhost:port",
        "http://[::1",
    ],
)
def test_an_address_is_a_url(url: str) -> None:
    with pytest.raises(InvalidConfig, match="the address of a service is a URL: got"):
        Client(url)


def test_a_service_that_is_not_there_is_reported() -> None:
    client = Client("http://127.0.0.1:9")
    with pytest.raises(Refused, match=r"127\.0\.0\.1 does not answer") as caught:
        client.classifiers()
    assert caught.value.status == 0
    assert not client.ready()
    assert not client.health()


def test_versions_metrics_and_health_can_be_asked_for(live: Live) -> None:
    assert live.client.health()
    assert "unitail_requests_total" in live.client.metrics()
    assert live.client.describe("blobs", version=1)["version"] == 1
    with pytest.raises(Refused, match="no such version") as caught:
        live.client.describe("blobs", version=9)
    assert caught.value.status == 409


def test_threads_share_a_client(live: Live) -> None:
    labels: list[list[int]] = []

    def ask() -> None:
        answers = live.client.predict("blobs", vectors=ASKED)["answers"]
        labels.append([each["label"] for each in answers])

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert labels == [vector_classifier().predict(ASKED).tolist()] * 6


def test_a_connection_that_was_closed_in_the_meantime_is_opened_again(live: Live) -> None:
    assert live.client.classifiers()
    live.client._connection().sock.shutdown(2)
    assert live.client.classifiers()
    live.client._connection().sock.shutdown(2)
    assert live.client.add("blobs", [0], vectors=ASKED[:1])["version"] == 2
    live.client.close()
    assert live.client.classifiers()


def read_request(connection: socket.socket) -> bytes:
    """Read a request to the end of its body, however it was cut; return its first words."""
    request = b""
    while more := connection.recv(10_000):
        request += more
        head, separator, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if separator and len(body) >= int(length[1] if length else 0):
            break
    return request.split(b" HTTP")[0]


@contextmanager
def dying(after: int) -> Iterator[tuple[str, list[bytes]]]:
    """Answer `after` requests on each connection, then read one more and hang up."""
    heard: list[bytes] = []
    reply = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]"

    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection = server.accept()[0]
                with connection:
                    for number in range(after + 1):
                        heard.append(read_request(connection))
                        if number < after:
                            connection.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
        finally:
            server.shutdown(2)
            thread.join()


def test_a_question_is_asked_again_and_a_change_is_not() -> None:
    with dying(after=1) as (url, heard), Client(url) as client:
        client.classifiers()
        assert client.classifiers() == []  # the first attempt was cut off
        client.close()
        client.classifiers()
        assert client.predict("a", vectors=[[1]]) == []
        client.close()
        heard.clear()
        client.classifiers()
        with pytest.raises(Refused, match="whether the change was made is unknown, `describe`"):
            client.add("predict", [1], vectors=[[1]])
        client.close()
        client.classifiers()
        with pytest.raises(Refused, match="whether the change was made is unknown"):
            client.remove_class("a", "predict")
    changes = [
        b"POST /v1/classifiers/predict/examples",
        b"DELETE /v1/classifiers/a/classes/predict",
    ]
    heard = [each for each in heard if each]  # not what was closed between
    assert heard == [b"GET /v1/classifiers", changes[0], b"GET /v1/classifiers", changes[1]]


def test_a_question_that_is_cut_off_on_a_new_connection_is_asked_once_more() -> None:
    with dying(after=0) as (url, heard), Client(url) as client:
        with pytest.raises(Refused, match="does not answer"):
            client.classifiers()
        assert heard == [b"GET /v1/classifiers"] * 2
        heard.clear()
        with pytest.raises(Refused, match="whether the change was made is unknown"):
            client.remove_class("a", "b")
        assert len(heard) == 1


def test_connections_of_threads_that_have_ended_are_closed(live: Live) -> None:
    before = len(live.client._connections)
    for _ in range(3):
        thread = threading.Thread(target=live.client.classifiers)
        thread.start()
        thread.join()
    live.client.classifiers()
    assert len(live.client._connections) <= before + 1


def test_refusals_carry_their_sentence(live: Live) -> None:
    with pytest.raises(Refused, match="there is no classifier of that name: got 'x y'") as caught:
        live.client.describe("x y")
    assert caught.value.status == 404


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ({"texts": "abc"}, "texts is a list: got a single str; allowed: a list, even for one"),
        ({"files": "rose.png"}, "files is a list: got a single str"),
        ({"files": b"bytes"}, "files is a list: got a single bytes"),
        ({"rows": {"size": 1}}, "rows is a list: got a single dict"),
        ({"files": ["a"], "texts": ["a"]}, "items of one kind: got texts and files"),
        ({}, "items of one kind: got none"),
    ],
)
def test_items_that_are_no_list_or_of_two_kinds_are_refused_before_anything_is_sent(
    items: dict[str, Any], sentence: str
) -> None:
    with Client("http://127.0.0.1:9") as client:  # where nobody listens
        for call in (client.predict, lambda name, **given: client.add(name, ["a"], **given)):
            with pytest.raises(InvalidConfig, match=sentence):
                call("letters", **items)
        with pytest.raises(InvalidConfig, match="labels is a list: got a single str"):
            client.add("letters", "red", texts=["a"])


@contextmanager
def answering(*replies: tuple[str, bytes]) -> Iterator[str]:
    """Answer requests, each on a connection of its own, with what stands for a proxy."""

    def serve(server: socket.socket) -> None:
        for head, body in replies:
            connection = server.accept()[0]
            with connection:
                read_request(connection)
                length = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                connection.sendall(f"HTTP/1.1 {head}\r\n{length}".encode() + body)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("page", [b"<html>Log in</html>", b"", b"\xff", b"[" * 100_000])
def test_a_page_in_place_of_an_answer_is_told(page: bytes) -> None:
    with (
        answering(("200 OK", page)) as url,
        Client(url) as client,
        pytest.raises(Refused, match=r"the reply is not JSON: got b'.*; allowed: what") as caught,
    ):
        client.classifiers()
    assert caught.value.status == 200
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [
        ("1", 1),
        ("0.5", 0.5),
        ("100000", MAX_WAIT),
        ("inf", MAX_WAIT),
        ("nan", 0),
        ("-5", 0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 2115 07:28:00 GMT", MAX_WAIT),
    ],
)
def test_a_busy_service_is_asked_again_as_it_says_but_soon(
    retry_after: str, wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("unitail.client.time.sleep", waited.append)
    busy = (f"503 Service Unavailable\r\nRetry-After: {retry_after}", b"{}")
    with answering(busy, busy, ("200 OK", b"[]")) as url, Client(url) as client:
        assert client.classifiers() == []
    assert waited == [wait, min(2 * wait, MAX_WAIT)]


@pytest.mark.parametrize("retry_after", ["soon", "", "Wed, 21 Oct 99999 07:28:00 GMT"])
def test_a_busy_service_that_does_not_say_when_is_not_asked_again(retry_after: str) -> None:
    busy = (f"503 Service Unavailable\r\nRetry-After: {retry_after}", b'{"error": "busy"}')
    with (
        answering(busy) as url,
        Client(url) as client,
        pytest.raises(Refused, match=r"busy \(status 503\)"),
    ):
        client.classifiers()
