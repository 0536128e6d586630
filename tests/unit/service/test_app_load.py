"""More than the service can do at a time: who is sent away, and that all others are answered."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers.raw_requests import JSON, LIMITS, PREDICT, QUESTION, TOKEN, send
from helpers.services import ASKED, Live, running, text_classifier, vector_classifier
from helpers.studios import wait_until
from unitail.client import Client
from unitail.service import messages
from unitail.service.limits import ServiceLimits
from unitail.service.questions import answer

ROUTE = "/v1/classifiers/{name}/predict"


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    classifiers = {"blobs": vector_classifier(), "letters": text_classifier()}
    with running(classifiers, limits=LIMITS, token=TOKEN) as service:
        yield service


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Hold all answers back until it is opened."""
    event = threading.Event()

    def held(questions: Any) -> Any:  # noqa: ANN401
        event.wait(20)
        return answer(questions)

    monkeypatch.setattr("unitail.service.batching.answer", held)
    return event


def ask_in_threads(live: Live, count: int) -> tuple[list[threading.Thread], list[Any]]:
    replies: list[Any] = []
    threads = [threading.Thread(target=lambda: replies.append(send(live))) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, replies


def test_an_answer_that_takes_too_long_is_given_up(
    live: Live, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live.service, "limits", replace(LIMITS, answer_seconds=0.3))
    status, headers, sentence = send(live)
    gate.set()
    assert (status, headers["retry-after"]) == (503, "1")
    assert (
        "got no answer within 0.3 s; allowed: answers within 0.3 s. Try again in 1 s." in sentence
    )


def test_too_many_at_a_time_are_sent_away_and_then_answered_again(
    live: Live, gate: threading.Event
) -> None:
    threads, replies = ask_in_threads(live, 4)
    while live.service.metrics.at_work._value.get() < 4:
        time.sleep(0.005)
    status, headers, sentence = send(live)
    assert (status, headers["retry-after"]) == (503, "1")
    assert "overloaded at the moment: got 4 requests in progress; allowed: at most 4" in sentence
    assert send(live, "GET", "/health", None, {})[0] == 200
    patient = Client(live.url, token=TOKEN, retries=3)  # it tries again
    late = threading.Thread(
        target=lambda: replies.append(patient.predict("blobs", vectors=ASKED[:1]))
    )
    late.start()
    time.sleep(0.1)
    gate.set()
    for thread in (*threads, late):
        thread.join()
    patient.close()
    assert [reply[0] for reply in replies[:4]] == [200] * 4
    assert replies[4]["answers"]
    assert send(live)[0] == 200


def test_too_many_bytes_at_a_time_are_sent_away(live: Live, gate: threading.Event) -> None:
    large = json.dumps({"vectors": [ASKED[0].tolist()], "texts": None}).encode()
    large += b" " * (19_000 - len(large))
    replies: list[Any] = []
    threads = [
        threading.Thread(target=lambda: replies.append(send(live, body=large))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    while live.service.metrics.at_work._value.get() < 2:
        time.sleep(0.005)
    refused_length, refused_chunks = send(live, body=large), send(live, body=iter([QUESTION]))
    gate.set()
    for thread in threads:
        thread.join()
    assert [reply[0] for reply in replies] == [200, 200]
    assert refused_length[0] == refused_chunks[0] == 503
    assert (
        "got 57,000 bytes in all requests and answers; allowed: at most 50,000" in refused_length[2]
    )
    assert send(live, body=large)[0] == 200


@contextmanager
def deaf_clients(live: Live, count: int) -> Iterator[list[socket.socket]]:
    """Ask for large answers on connections that do not read them."""
    content = json.dumps({"vectors": np.tile(ASKED[:5], (200, 1)).tolist(), "influence": 9})
    head = {"Host": "localhost", "Content-Length": str(len(content)), **JSON}
    lines = [f"POST {PREDICT} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.socket()) for _ in range(count)]
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(60)
            client.connect(("127.0.0.1", int(live.url.rpartition(":")[2])))
            client.sendall("\r\n".join([*lines, "", content]).encode())
        yield clients


def are_unsent(live: Live, count: int) -> bool:
    """Return whether this many connections have more to send than they are able to."""
    connections = list(live.server.server_state.connections)
    return sum(each.transport.get_write_buffer_size() > 2**16 for each in connections) == count


def test_clients_that_do_not_read_take_no_place_of_others() -> None:
    with (
        running(
            {"blobs": vector_classifier()}, limits=ServiceLimits(concurrency=3), token=TOKEN
        ) as live,
        deaf_clients(live, 3),
    ):
        wait_until(lambda: are_unsent(live, 3))
        wait_until(lambda: live.service.metrics.at_work._value.get() == 0)
        assert send(live)[0] == 200
    assert live.service.metrics.at_work._value.get() == 0


def test_answers_that_are_not_read_count_by_their_bytes() -> None:
    limits = ServiceLimits(bytes_at_work=10**6)
    sentence = "bytes in all requests and answers; allowed: at most 1,000,000"
    with (
        running({"blobs": vector_classifier()}, limits=limits, token=TOKEN) as live,
        deaf_clients(live, 3) as clients,
    ):
        wait_until(lambda: are_unsent(live, 3))
        status, headers, refusal = send(live)
        assert (status, headers["retry-after"], sentence in refusal) == (503, "1", True), refusal
        for client in clients[1:]:
            client.close()  # as when it is cut off
        with http.client.HTTPResponse(clients[0]) as reply:
            reply.begin()
            assert len(json.loads(reply.read())["answers"]) == 1000
        admission = live.server.config.app.app  # type: ignore[union-attr]
        wait_until(lambda: admission.bytes_at_work == 0)
        assert send(live)[0] == 200


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x"])
def test_a_client_that_leaves_within_its_body_is_no_error_in_the_metrics(
    live: Live, kind: str
) -> None:
    def counted(status: int) -> float:
        return live.service.metrics.requests.labels(ROUTE, str(status))._value.get()

    gone, errors = counted(499), counted(500)
    with socket.create_connection(("127.0.0.1", int(live.url.rpartition(":")[2]))) as client:
        head = {"Host": "localhost", "Content-Length": "100", **JSON, "Content-Type": kind}
        lines = [f"POST {PREDICT} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
        client.sendall("\r\n".join([*lines, "", "--x"]).encode())
        wait_until(lambda: live.service.metrics.at_work._value.get() == 1)
    wait_until(lambda: live.service.metrics.at_work._value.get() == 0)
    wait_until(lambda: counted(499) == gone + 1)
    assert counted(500) == errors


def test_others_are_answered_while_a_large_body_is_parsed(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Event(), threading.Event()
    parse = messages.Question.model_validate_json

    def slow(body: bytes) -> messages.Question:
        begun.set()
        over.wait(30)
        return parse(body)

    monkeypatch.setattr(messages.Question, "model_validate_json", slow)
    [thread], replies = ask_in_threads(live, 1)
    assert begun.wait(30)
    assert send(live, "GET", "/v1/classifiers/blobs", None)[0] == 200
    over.set()
    thread.join()
    assert replies[0][0] == 200
