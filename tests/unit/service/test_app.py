"""An audit: every promise of the service about strangers' requests, each with its test."""

import json
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from helpers.raw_requests import JSON, LIMITS, PREDICT, TOKEN, send
from helpers.services import (
    Live,
    colour_classifier,
    picture,
    running,
    text_classifier,
    vector_classifier,
)
from unitail.client import Refused
from unitail.service import messages


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    classifiers = {
        "blobs": vector_classifier(),
        "colours": colour_classifier(),
        "letters": text_classifier(),
    }
    with running(classifiers, limits=LIMITS, token=TOKEN) as service:
        yield service


def test_a_question_with_the_token_is_answered(live: Live) -> None:
    assert send(live)[0] == 200


@pytest.mark.parametrize(
    "path", [PREDICT, "/v1/classifiers", "/metrics", "/", "/openapi.json", "/nothing"]
)
def test_nothing_but_health_is_told_without_the_token(live: Live, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong-token-wrong-token"}):
        assert send(live, "GET", path, None, headers)[0] == 401
    for open_path in ("/health", "/ready"):
        for method in ("GET", "HEAD"):
            assert send(live, method, open_path, None, {})[0] == 200
    page = {"Accept": "text/html"}
    assert "the token that the server was started with" in send(live, "GET", "/", None, page)[2]
    metrics = send(live, "GET", "/metrics", None)[2]
    assert 'unitail_requests_total{route="refused",status="401"}' in metrics
    assert 'unitail_request_seconds_count{route="refused"}' not in metrics  # it took no time


def test_rebound_names_and_other_sites_pages_are_refused(live: Live) -> None:
    status, _, sentence = send(live, headers={**JSON, "Host": "evil.example"})
    assert (status, "a host that is not this server: got evil.example" in sentence) == (403, True)
    status, _, sentence = send(live, headers={**JSON, "Origin": "https://evil.example"})
    assert (status, "the request comes from a page of another site" in sentence) == (403, True)
    for origin in ("http://[::1", "http://[", "null", ""):  # told apart before the token is checked
        assert send(live, headers={"Host": "localhost", "Origin": origin})[0] == 403
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
        connection.settimeout(60)
        reply = connection.makefile("rb").read()  # until the server closes
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert b"the body took too long to arrive: got 1 bytes in 1.5 s" in reply


def test_too_many_items_and_pixels_are_refused(live: Live) -> None:
    status, _, sentence = send(live, body=json.dumps({"vectors": [[1] * 6] * 21}))
    assert status == 413
    assert sentence == (
        "a request cannot contain this many vectors: got 21; allowed: 1 to 20."
        " Send several requests."
    )
    with pytest.raises(
        Refused, match=r"this many files: got more than 20; allowed: 1 to 20\."
    ) as caught:
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
    "kind", ["application/json", "Application/x+JSON; a=b", "application/+json"]
)
def test_json_of_every_kind_is_parsed_in_the_thread_for_it(
    live: Live, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsers: list[str] = []
    parse = messages.Question.model_validate_json

    def watched(body: bytes) -> messages.Question:
        parsers.append(threading.current_thread().name)
        return parse(body)

    monkeypatch.setattr(messages.Question, "model_validate_json", watched)
    headers = {**JSON, "Content-Type": kind}
    assert send(live, headers=headers)[0] == 200
    for body in (b'{"texts": ["\\ud800"]}', b'{"rows": [{"\\ud800": 1}]}', b'{"\\ud800": 1}'):
        status, _, sentence = send(live, body=body, headers=headers)
        assert (status, "the body is invalid" in sentence) == (422, True)
    assert len(parsers) == 4
    assert all(name.startswith("parsing") for name in parsers)


def test_of_what_is_wrong_only_the_beginning_is_told(live: Live) -> None:
    for wrong in ("k" * 15_000, "k\n" * 5_000):
        for content in ({wrong: 1}, {"version": wrong}):
            status, _, sentence = send(live, body=json.dumps(content).encode())
            assert status == 422
            assert len(sentence) < 400


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


def test_the_first_of_a_million_faults_is_told(live: Live) -> None:
    status, _, sentence = send(live, body=json.dumps({"vectors": [["a"] * 3000]}))
    assert (status, "vectors.0.0 is invalid: got 'a'" in sentence) == (422, True)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"vectors": [[0, True, 1]]}, "vectors.0.1 is invalid: got True;"),
        ({"vectors": [[0, "1", 1]]}, "vectors.0.1 is invalid: got '1';"),
        ({"vectors": [[0, 0, 1]], "version": True}, "version is invalid: got True;"),
        ({"vectors": [[0, 0, 1]], "coverage": "0.8"}, "coverage is invalid: got "),
        ({"vectors": [[0, 0, 1]], "novelty": 1}, "novelty is invalid: got 1;"),
    ],
)
def test_nothing_is_taken_for_a_number_that_is_none(
    live: Live, content: dict[str, Any], sentence: str
) -> None:
    status, _, said = send(live, body=json.dumps(content))
    assert (status, said[: len(sentence)]) == (422, sentence)
    assert send(live, body=json.dumps({"vectors": [[0, 1, 2.5, 3, 4, -5]]}))[0] == 200


@pytest.mark.parametrize(
    ("items", "got"), [({}, "none"), ({"texts": ["a"], "rows": [{}]}, "texts and rows")]
)
def test_items_of_one_kind_are_needed(live: Live, items: dict[str, Any], got: str) -> None:
    status, _, sentence = send(live, body=json.dumps(items))
    told = f"items of one kind: got {got}; allowed: one of vectors, texts and rows"
    assert (status, told in sentence) == (422, True)


def test_places_of_any_size_are_refused(live: Live) -> None:
    body = json.dumps({"places": [12], "version": 1})
    sentence = send(live, path="/v1/classifiers/blobs/examples/remove", body=body)[2]
    assert sentence == (
        "there is no such example: got place 12; allowed: places from 0 to 11. List its examples."
    )
    for place in (10**30, 2**31, -1):
        body = json.dumps({"places": [place], "version": 1})
        status, _, sentence = send(live, path="/v1/classifiers/blobs/examples/remove", body=body)
        assert (status, "places.0 is invalid: got" in sentence) == (422, True)


def test_unexpected_errors_tell_nothing(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(questions: Any) -> Any:  # noqa: ANN401
        raise ArithmeticError("a secret")

    monkeypatch.setattr("unitail.service.batching.answer", broken)
    status, _, sentence = send(live)
    assert (status, sentence) == (500, "an unexpected error; see the server's log")
