"""An audit: every promise of the service about strangers' requests, each with its test."""

import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from helpers.services import (
    ASKED,
    Live,
    colour_classifier,
    picture,
    running,
    text_classifier,
    vector_classifier,
)
from unitail.client import Client, Refused
from unitail.service import messages
from unitail.service.limits import ServiceLimits
from unitail.service.questions import answer

TOKEN = "a-token-of-24-characters"
LIMITS = ServiceLimits(
    body_bytes=40_000,
    json_bytes=20_000,
    bytes_at_work=50_000,
    body_seconds=1.5,
    items=20,
    pixels=10_000,
    answer_seconds=1.0,
    concurrency=4,
)
QUESTION = json.dumps({"vectors": [ASKED[0].tolist()]}).encode()
PREDICT = "/v1/classifiers/blobs/predict"
JSON = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    classifiers = {
        "blobs": vector_classifier(),
        "colours": colour_classifier(),
        "letters": text_classifier(),
    }
    with running(classifiers, limits=LIMITS, token=TOKEN) as service:
        yield service


def send(
    live: Live,
    method: str = "POST",
    path: str = PREDICT,
    body: Any = QUESTION,  # noqa: ANN401 - bytes, or an iterable of them
    headers: dict[str, str] = JSON,
) -> tuple[int, dict[str, str], str]:
    """Send a request as it is; return status, headers and the sentence of a refusal."""
    connection = http.client.HTTPConnection("127.0.0.1", int(live.url.rpartition(":")[2]))
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        text = reply.read().decode()
        named = {name.lower(): value for name, value in reply.getheaders()}
        content = json.loads(text) if named["content-type"] == "application/json" else {}
        return reply.status, named, str(content.get("error", "")) if content else text
    finally:
        connection.close()


def test_a_question_with_the_token_is_answered(live: Live) -> None:
    assert send(live)[0] == 200


@pytest.mark.parametrize(
    "path", [PREDICT, "/v1/classifiers", "/metrics", "/", "/openapi.json", "/nothing"]
)
def test_nothing_but_health_is_told_without_the_token(live: Live, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong-token-wrong-token"}):
        assert send(live, "GET", path, None, headers)[0] == 401
    for open_path in ("/health", "/ready"):
        assert send(live, "GET", open_path, None, {})[0] == 200


def test_rebound_names_and_other_sites_pages_are_refused(live: Live) -> None:
    status, _, sentence = send(live, headers={**JSON, "Host": "evil.example"})
    assert (status, "a host that is not this server: got evil.example" in sentence) == (403, True)
    status, _, sentence = send(live, headers={**JSON, "Origin": "https://evil.example"})
    assert (status, "a page of another site asks" in sentence) == (403, True)
    plain = {"Content-Type": "text/plain", "Host": "localhost", "Authorization": f"Bearer {TOKEN}"}
    assert send(live, headers=plain)[0] == 422  # forms of other sites cannot send JSON unasked


def test_answers_tell_browsers_to_keep_out_and_do_not_name_the_server(live: Live) -> None:
    for path in ("/", "/health", "/nothing"):
        headers = send(live, "GET", path, None, JSON)[1]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "server" not in headers


def test_a_body_that_is_too_large_is_refused_announced_or_not(live: Live) -> None:
    large = b'{"texts": ["' + 20_000 * b"a" + b'"]}'
    for body in (large, iter([large[:9000], large[9000:]])):  # the second is sent in chunks
        status, headers, sentence = send(live, body=body)
        assert (status, headers.get("connection")) == (413, "close")
        assert "allowed: at most 20,000 bytes" in sentence


def test_forms_may_be_larger_than_json(live: Live) -> None:
    with pytest.raises(Refused, match="cannot be read") as caught:
        live.client.predict("colours", files=[b"x" * 30_000])
    assert caught.value.status == 422
    with pytest.raises(Refused, match="allowed: at most 40,000 bytes") as caught:
        live.client.predict("colours", files=[b"x" * 40_000])
    assert caught.value.status == 413


def test_a_body_that_stalls_is_given_up(live: Live) -> None:
    with socket.create_connection(("127.0.0.1", int(live.url.rpartition(":")[2]))) as connection:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        connection.sendall(f"{head}Content-Length: 10\r\n\r\n".encode() + b"{")
        connection.settimeout(5)
        reply = connection.makefile("rb").read()  # until the server closes
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert b"the body took too long to arrive: got 1 bytes in 1.5 s" in reply


def test_too_many_items_and_pixels_are_refused(live: Live) -> None:
    status, _, sentence = send(live, body=json.dumps({"vectors": [[1] * 6] * 21}))
    assert status == 413
    assert sentence == (
        "a request cannot bring so many vectors: got 21; allowed: 1 to 20. Send several requests."
    )
    with pytest.raises(Refused, match=r"too many|so many files: got 21") as caught:
        live.client.predict("colours", files=[b"x"] * 21)
    assert caught.value.status == 413
    with pytest.raises(Refused, match="101 x 100 pixels; allowed: at most 10,000 pixels") as caught:
        live.client.predict("colours", files=[picture((0, 0, 0), (101, 100))])
    assert caught.value.status == 422


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"vectors"', b"\xff\xfe", 9000 * b"[", b'{"vectors": 1}', b"{}"],
)
def test_bodies_that_are_no_question_are_told(live: Live, body: bytes) -> None:
    status, _, sentence = send(live, body=body)
    assert status in (400, 422)
    assert sentence


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", PREDICT, 405),
        ("POST", "/v1/classifiers/../../etc/passwd/predict", 404),
        ("POST", "/v1/classifiers/..%2F..%2Fetc%2Fpasswd/predict", 404),
        ("POST", "/v1/classifiers/%00/predict", 404),
        ("POST", f"/v1/classifiers/{'a' * 65}/predict", 422),
        ("GET", "/v1/nothing", 404),
    ],
)
def test_strange_addresses_are_refused(live: Live, method: str, path: str, status: int) -> None:
    got, _, sentence = send(live, method, path)
    assert got == status
    assert sentence


class Opened:
    """Notes which files are opened; Python has no way to stop listening, so there is a switch."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.on = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.on and event in ("open", "os.listdir", "os.mkdir", "os.remove", "os.rename"):
            self.paths.append(str(arguments[0]))


def test_no_path_of_a_request_reaches_the_file_system(live: Live) -> None:
    marks = ("/etc/passwd", "marker-of-a-path.png")
    opened = Opened()
    opened.on = True
    open("/dev/null").close()
    form = (
        b'--e\r\nContent-Disposition: form-data; name="files"; filename="/etc/passwd"\r\n\r\n'
        + picture((250, 0, 0))
        + b"\r\n--e--\r\n"
    )
    headers = {**JSON, "Content-Type": "multipart/form-data; boundary=e"}
    replies = [
        send(live, path="/v1/classifiers/colours/predict/files", body=form, headers=headers),
        send(live, path="/v1/classifiers/letters/predict", body=json.dumps({"texts": list(marks)})),
        send(live, path="/v1/classifiers/colours/predict", body=json.dumps({"texts": marks})),
        send(live, path="/v1/classifiers/..%2Fmarker-of-a-path.png/predict"),
        send(live, "DELETE", "/v1/classifiers/blobs/classes//etc/passwd", None),
    ]
    opened.on = False
    assert [status for status, _, _ in replies] == [200, 200, 422, 404, 404]
    assert "/dev/null" in opened.paths  # else nothing was heard
    assert not [path for path in opened.paths if any(mark in path for mark in marks)]


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


def test_an_answer_that_takes_too_long_is_given_up(live: Live, gate: threading.Event) -> None:
    status, headers, sentence = send(live)
    gate.set()
    assert (status, headers["retry-after"]) == (503, "1")
    assert "got no answer within 1 s; allowed: answers within 1 s. Try again in 1 s." in sentence


def test_too_many_at_a_time_are_sent_away_and_then_answered_again(
    live: Live, gate: threading.Event
) -> None:
    threads, replies = ask_in_threads(live, 4)
    while live.service.metrics.at_work._value.get() < 4:
        time.sleep(0.005)
    status, headers, sentence = send(live)
    assert (status, headers["retry-after"]) == (503, "1")
    assert "too much to do at the moment: got 4 at work; allowed: at most 4 at a time" in sentence
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
        "got 57,000 bytes in all requests; allowed: at most 50,000 at a time" in refused_length[2]
    )
    assert send(live, body=large)[0] == 200


def test_others_are_answered_while_a_large_body_is_parsed(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Event(), threading.Event()
    parse = messages.Question.model_validate_json

    def slow(body: bytes) -> messages.Question:
        begun.set()
        over.wait(5)
        return parse(body)

    monkeypatch.setattr(messages.Question, "model_validate_json", slow)
    [thread], replies = ask_in_threads(live, 1)
    assert begun.wait(5)
    assert send(live, "GET", "/v1/classifiers/blobs", None)[0] == 200
    over.set()
    thread.join()
    assert replies[0][0] == 200


def test_the_first_of_a_million_faults_is_told(live: Live) -> None:
    status, _, sentence = send(live, body=json.dumps({"vectors": [["a"] * 3000]}))
    assert (status, "vectors.0.0 is not as it should be: got 'a'" in sentence) == (422, True)


def test_unexpected_errors_tell_nothing(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(questions: Any) -> Any:  # noqa: ANN401
        raise ArithmeticError("a secret")

    monkeypatch.setattr("unitail.service.batching.answer", broken)
    status, _, sentence = send(live)
    assert (status, sentence) == (500, "an unexpected error; the log has it")
