import asyncio
import http.client
import json
import threading

import pytest
import uvicorn
from fastapi import FastAPI, Request

from helpers.asgi import HOST, ask, connect, header_lines
from helpers.studios import wait_until
from unitail.web.access import COOKIE, Access, Pass
from unitail.web.body import BodyLimits, LimitedBody
from unitail.web.guards import HEADERS, NOTHING, Guards
from unitail.web.replies import App, Message, Receive, Refusal, Scope, Send

TOKEN = "a-token-of-24-characters"
LONG = 2**24
"""Bytes: more than the buffers of a connection hold."""
BEARER = {**HOST, "authorization": f"Bearer {TOKEN}"}


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the whole body, then answer with its length."""
    length, more = 0, True
    while more:
        message = await receive()
        length, more = length + len(message["body"]), message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(length).encode()})


def limits_of(max_bytes: int = 1000, max_seconds: float = 5) -> BodyLimits:
    return BodyLimits(max_bytes=max_bytes, max_form_bytes=2 * max_bytes, max_seconds=max_seconds)


def guarded(app: App = echo, *, token: str | None = None, **limits: float) -> Guards:
    return Guards(
        app,
        access=Access.at("127.0.0.1", token=token),
        limits=limits_of(**limits),  # type: ignore[arg-type]
        open_paths=frozenset({"/health"}),
    )


def fastapi_app() -> FastAPI:
    app = FastAPI()

    @app.post("/")
    def count(content: dict[str, str]) -> int:
        return len(content)

    app.add_middleware(Guards, access=Access.at("127.0.0.1"), limits=limits_of(100))
    return app


def test_every_answer_tells_browsers_what_not_to_do() -> None:
    for reply in (ask(guarded()), ask(guarded(), headers={"host": "evil.example"})):
        for name, value in HEADERS.items():
            assert reply.headers[name.lower()] == value
        assert reply.headers["content-security-policy"] == NOTHING


def test_an_application_may_say_otherwise() -> None:
    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        own = [(b"Cache-Control", b"max-age=60"), (b"content-security-policy", b"own")]
        await send({"type": "http.response.start", "status": 200, "headers": own})
        await send({"type": "http.response.body", "body": b""})

    reply = ask(guarded(page))
    assert reply.headers["cache-control"] == "max-age=60"
    assert reply.headers["content-security-policy"] == "own"
    assert reply.headers["x-frame-options"] == "DENY"


def test_refused_requests_never_reach_the_application() -> None:
    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    app = guarded(never, token=TOKEN)
    assert ask(app).status == 401
    assert ask(app, headers={"host": "evil.example"}).status == 403
    assert ask(app, headers={**BEARER, "origin": "http://evil.example"}).status == 403
    assert ask(app, "POST", headers={**BEARER, "content-length": str(2**40)}).status == 413
    assert ask(app, "POST", headers={**BEARER, "content-length": "-1"}).status == 400


def test_the_token_opens_and_health_needs_none() -> None:
    app = guarded(token=TOKEN)
    assert ask(app, headers=BEARER).status == 200
    assert ask(app, path="/health").status == 200
    assert ask(app, path="/health/").status == 401
    assert ask(app, path="/health", headers={"host": "evil.example"}).status == 403


def test_a_link_with_the_token_becomes_a_cookie() -> None:
    app = guarded(token=TOKEN)
    reply = ask(app, path=f"//evil.example/a%20b?x=1&token={TOKEN}")
    assert reply.status == 303
    assert reply.headers["location"] == "/evil.example/a%2520b?x=1"
    cookie = f"{COOKIE}_8000={TOKEN}"
    assert reply.headers["set-cookie"] == f"{cookie}; Path=/; HttpOnly; SameSite=Lax"
    assert ask(app, headers={**HOST, "cookie": cookie}).status == 200
    assert ask(app, path="/?token=another-token-than-it").status == 401
    assert ask(app, "POST", path=f"/?token={TOKEN}").status == 401


def test_a_pass_opens_once_and_only_what_it_was_made_for() -> None:
    given = Pass()
    first, second = (
        Guards(echo, access=Access.at("127.0.0.1", token=TOKEN, pass_=own), limits=limits_of())
        for own in (given, Pass())
    )
    link = f"/?token={given.text}"
    assert ask(second, path=link).status == 401
    assert ask(first, "POST", path=link).status == 401
    assert ask(first, headers={**HOST, "authorization": f"Bearer {given.text}"}).status == 401
    elsewhere = {**HOST, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert ask(first, path=link, headers=elsewhere).status == 403  # an image on another site
    reply = ask(first, path=link)
    assert (reply.status, reply.headers["location"]) == (303, "/")
    cookie = reply.headers["set-cookie"].partition(";")[0]
    assert cookie == f"{COOKIE}_8000={TOKEN}"
    assert ask(first, path=link).status == 401
    assert ask(first, path=link, headers={**HOST, "cookie": cookie}).status == 200


def test_a_body_as_large_as_allowed_is_read_and_one_byte_more_is_not() -> None:
    app = guarded(max_bytes=10)
    assert ask(app, "POST", body=[b"12345", b"67890"]).body == b"10"
    for headers in (HOST, {**HOST, "content-length": "3"}):  # whatever it announced
        reply = ask(app, "POST", headers=headers, body=[b"12345", b"67890", b"1"])
        assert (reply.status, reply.headers["connection"]) == (413, "close")
        assert reply.error == (
            "the body is too large: got more than 10 bytes; allowed: at most 10 bytes."
            " Send less at a time."
        )
    announced = ask(app, "POST", headers={**HOST, "content-length": "11"})
    assert "the body is too large: got 11 bytes" in announced.error


def test_a_form_may_be_larger() -> None:
    app, form = guarded(max_bytes=10), {**HOST, "content-type": "Multipart/Form-Data; boundary=x"}
    assert ask(app, "POST", headers=form, body=[20 * b"x"]).body == b"20"
    assert ask(app, "POST", headers=form, body=[21 * b"x"]).status == 413


def test_a_page_without_the_token_says_where_to_find_it() -> None:
    app = guarded(token=TOKEN)
    reply = ask(app, headers={**HOST, "accept": "text/html,*/*"})
    assert (reply.status, reply.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert b"Open the link that unitail printed when it started" in reply.body
    assert "needs the token" in ask(app, headers={**HOST, "accept": "*/*"}).error
    assert ask(app, headers={"host": "evil.example", "accept": "text/html"}).status == 403


def test_a_body_that_stalls_is_given_up() -> None:
    reply = ask(guarded(max_seconds=0.05), "POST", body=[b"123"], stalls=True)
    assert reply.status == 408
    assert "the body took too long to arrive: got 3 bytes in 0.05 s; allowed" in reply.error


def test_answers_may_take_longer_than_bodies() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await asyncio.sleep(0.1)
        await echo(scope, _empty, send)

    async def _empty() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    assert ask(guarded(slow, max_seconds=0.05), "POST").status == 200


def test_a_body_that_is_read_late_is_not_slow_but_one_that_drips_is() -> None:
    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.15)  # as long as an export may take
        await echo(scope, receive, send)

    assert ask(guarded(late, max_seconds=0.05), "GET").status == 200
    assert ask(guarded(late, max_seconds=0.05), "POST", body=[b"123", b"45"]).body == b"5"

    async def drip() -> Message:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def read() -> None:
        body = LimitedBody(drip, max_bytes=100, max_seconds=0.2)
        while True:
            await body()

    with pytest.raises(Refusal, match="the body took too long to arrive"):
        asyncio.run(read())


def test_what_a_framework_makes_of_a_refused_body_is_not_sent() -> None:
    app, headers = fastapi_app(), {**HOST, "content-type": "application/json"}
    reply = ask(app, "POST", headers=headers, body=[b'{"a": "', 200 * b"x", b'"}'])
    assert reply.status == 413
    assert ask(app, "POST", headers=headers, body=[b'{"a": "b"}']).body == b"1"
    assert "detail" in json.loads(ask(app, "POST", headers=headers, body=[b"{"]).body)


def test_errors_of_the_application_are_its_own() -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        ask(guarded(broken))


def test_a_client_that_goes_within_its_body_is_no_error() -> None:
    content: list[Message] = [
        {"type": "http.request", "body": b'{"a"', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        raise AssertionError

    async def receive() -> Message:
        return content.pop(0)

    async def send(message: Message) -> None:
        raise AssertionError("there is nobody to answer")

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b""}
    asyncio.run(guarded(read)({**scope, "headers": header_lines(HOST)}, receive, send))
    assert not content


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        (BEARER, True),
        ({**BEARER, "origin": "http://localhost:8000"}, True),
        ({**BEARER, "origin": "http://evil.example"}, False),
        ({**BEARER, "host": "evil.example"}, False),
        (HOST, False),
    ],
)
def test_websockets_pass_the_same_gate(headers: dict[str, str], accepted: bool) -> None:
    async def chat(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})

    [message] = asyncio.run(connect(guarded(chat, token=TOKEN), headers))
    assert message["type"] == ("websocket.accept" if accepted else "websocket.close")
    assert accepted or message["code"] == 1008


def test_the_start_of_the_server_passes() -> None:
    started = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        started.append(scope["type"])

    asyncio.run(connect_lifespan(guarded(app)))
    assert started == ["lifespan"]


async def connect_lifespan(app: App) -> None:
    async def nothing(*_: object) -> Message:
        return {}

    await app({"type": "lifespan"}, nothing, nothing)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("headers", "pieces", "status"),
    [
        ({"Content-Length": str(LONG)}, LONG // 2**16, 413),
        ({"Transfer-Encoding": "chunked"}, LONG // 2**16, 413),
        ({"Content-Length": str(LONG), "Origin": "https://evil.example"}, LONG // 2**16, 403),
        ({"Content-Length": str(LONG), "Expect": "100-continue"}, 0, 413),
        ({"Transfer-Encoding": "chunked", "Expect": "100-continue"}, LONG // 2**16, 413),
        ({"Content-Length": str(LONG)}, 1, 413),  # and then no more: it is not waited for
        ({"Content-Length": str(LONG), "Origin": "https://evil.example"}, 1, 403),
    ],
)
def test_who_is_refused_while_sending_hears_why(
    headers: dict[str, str], pieces: int, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent to a connection that is closed resets it, and the answer is lost."""
    for name in ("DRAIN_SECONDS", "STRANGER_SECONDS"):
        monkeypatch.setattr(f"unitail.web.body.{name}", 60 if pieces > 1 else 0.2)
    server = uvicorn.Server(uvicorn.Config(guarded(), port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    host, port = server.servers[0].sockets[0].getsockname()
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.putrequest("POST", "/")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    for _ in range(pieces):
        piece = bytes(2**16)
        connection.send(piece if "Content-Length" in headers else b"10000\r\n%b\r\n" % piece)
    if "Transfer-Encoding" in headers:
        connection.send(b"0\r\n\r\n")
    reply = connection.getresponse()
    assert reply.status == status
    assert reply.will_close or pieces > 1, "a body that is not read must not come in for ever"
    connection.close()
    server.should_exit = True
    thread.join(60)


ALLOWED = "https://app.example"
ASKS = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}


def test_pages_of_an_allowed_origin_may_ask_with_the_token_and_read_the_answer() -> None:
    access = Access.at("127.0.0.1", token=TOKEN, origins=[ALLOWED])
    app = Guards(echo, access=access, limits=limits_of())
    preflight = ask(app, method="OPTIONS", headers={**HOST, "origin": ALLOWED, **ASKS})
    assert preflight.status == 200
    assert preflight.headers["access-control-allow-origin"] == ALLOWED
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "Authorization" in preflight.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in preflight.headers
    for headers, status in ((BEARER, 200), (HOST, 401)):  # refusals can be read, too
        reply = ask(app, headers={**headers, "origin": ALLOWED})
        assert (reply.status, reply.headers["access-control-allow-origin"]) == (status, ALLOWED)
        assert reply.headers["vary"] == "Origin"


def test_pages_of_other_origins_may_not() -> None:
    access = Access.at("127.0.0.1", token=TOKEN, origins=[ALLOWED])
    for given in (access, Access.at("127.0.0.1", token=TOKEN)):
        app = Guards(echo, access=given, limits=limits_of())
        for asks in ({}, ASKS):
            headers = {**BEARER, "origin": "https://evil.example", **asks}
            reply = ask(app, method="OPTIONS", headers=headers)
            assert reply.status == 403
            assert not [name for name in reply.headers if name.startswith("access-control")]
    rebound = {"host": "evil.example", "origin": ALLOWED, **ASKS}
    app = Guards(echo, access=access, limits=limits_of())
    assert ask(app, method="OPTIONS", headers=rebound).status == 403


def test_refusals_are_counted_and_each_server_says_where_its_token_is() -> None:
    refused: list[int] = []
    app = Guards(
        echo,
        access=Access.at("127.0.0.1", token=TOKEN),
        limits=limits_of(),
        where_token="Look <there>.",
        on_refusal=refused.append,
    )
    page = ask(app, headers={**HOST, "accept": "text/html"})
    assert "<p>Look &lt;there&gt;.</p>" in page.body.decode()
    assert ask(app, headers=BEARER).status == 200
    assert refused == [401]
