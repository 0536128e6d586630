import base64
import hmac

import pytest

from helpers.asgi import header_lines
from unitail.errors import InvalidConfig
from unitail.web.access import COOKIE, LOCAL_HOSTS, Access, is_local, new_token
from unitail.web.replies import Refusal

TOKEN = "a-token-of-24-characters"


def request(method: str = "POST", **headers: str) -> dict[str, object]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"type": "http", "method": method, "headers": header_lines(named)}


def refused(access: Access, scope: dict[str, object]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        access.check(scope)
    return caught.value


def passes(access: Access, scope: dict[str, object]) -> bool:
    try:
        access.check(scope)
    except Refusal:
        return False
    return True


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.5", "localhost", "LOCALHOST", "::1"])
def test_this_machine_alone_needs_no_token(host: str) -> None:
    assert is_local(host)
    assert Access.at(host).token is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org"])
def test_beyond_this_machine_a_token_is_required(host: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        Access.at(host)
    assert str(caught.value) == (
        f"a server that others can reach needs a token: got host {host} without a token;"
        " allowed: a token of 16 characters or more, or host 127.0.0.1."
        " Set a token, or listen on this machine alone."
    )


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ("short", "too easy to guess: got 5 characters; allowed: 16 or more letters, digits"),
        ("ü" * 20, "cannot be sent as it is: got other characters"),
        ("with a space; and more", "cannot be sent as it is"),
        ('"quoted-quoted-quoted"', "cannot be sent as it is"),
        ("=at-the-beginning-of-it", "cannot be sent as it is"),
    ],
)
def test_a_token_that_could_be_guessed_or_not_be_sent_is_refused(token: str, sentence: str) -> None:
    with pytest.raises(InvalidConfig, match=sentence):
        Access.at("127.0.0.1", token=token)


def test_a_token_of_base64_goes_through_headers_and_cookies() -> None:
    token = "ab+/cd._~-0123456789=="
    access = Access.at("127.0.0.1", token=token)
    for near, is_it in ((token, True), (token[:-1], False), (token.upper(), False)):
        by_cookie = request(host="localhost:80", cookie=f"{COOKIE}_80={near}")
        assert passes(access, by_cookie) is is_it
        assert passes(access, request(host="localhost", authorization=f"Bearer {near}")) is is_it


def test_new_tokens_are_long_and_differ() -> None:
    assert new_token() != new_token()
    assert Access.at("0.0.0.0", token=new_token()).token is not None


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "LocalHost"]
)
def test_own_names_are_hosts(host: str) -> None:
    assert passes(Access.at("127.0.0.1"), request(host=host))


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", "localhost."]
)
def test_a_name_that_was_rebound_to_this_machine_is_refused(host: str) -> None:
    refusal = refused(Access.at("127.0.0.1"), request(host=host))
    assert refusal.status == 403
    assert str(refusal) == (
        "the request names a host that is not this server:"
        f" got {host.partition(':')[0]}; allowed: {', '.join(LOCAL_HOSTS)}."
        " Use one of these names, or start the server with this name allowed."
    )


@pytest.mark.parametrize("host", ["", "localhost:port", "localhost/path", "user@localhost", "[::1"])
def test_a_host_that_is_no_name_is_refused(host: str) -> None:
    assert refused(Access.at("127.0.0.1"), request(host=host)).status == 400


def test_no_host_and_two_hosts_are_refused() -> None:
    access = Access.at("127.0.0.1")
    assert refused(access, request()).status == 400
    two = {"type": "http", "method": "GET", "headers": 2 * header_lines({"host": "localhost"})}
    assert refused(access, two).status == 400


def test_names_are_hosts_of_a_server_that_others_reach() -> None:
    access = Access.at("0.0.0.0", token=TOKEN, names=["Tail.example"])
    bearer = f"Bearer {TOKEN}"
    access.check(request(host="tail.example:80", authorization=bearer))
    assert refused(access, request(host="other.example", authorization=bearer)).status == 403
    Access.at("0.0.0.0", token=TOKEN).check(request(host="any.example", authorization=bearer))


def test_only_own_pages_and_allowed_ones_ask() -> None:
    access = Access.at("127.0.0.1", origins=["https://App.example"])
    access.check(request(host="localhost:8000", origin="http://localhost:8000"))
    access.check(request(host="localhost:8000", origin="https://app.example"))
    for origin in ("http://evil.example", "http://localhost:3000", "null", "https://localhost"):
        refusal = refused(access, request(host="localhost:8000", origin=origin))
        assert refusal.status == 403
        assert (
            f"the request comes from a page of another site: got origin {origin}; allowed: pages"
            in str(refusal)
        )


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_page_embeds_is_refused_but_its_links_work(site: str) -> None:
    access = Access.at("127.0.0.1")
    embedded = request("GET", host="localhost", sec_fetch_site=site, sec_fetch_mode="no-cors")
    assert refused(access, embedded).status == 403
    link = request("GET", host="localhost", sec_fetch_site=site, sec_fetch_mode="navigate")
    access.check(link)
    form = request("POST", host="localhost", sec_fetch_site=site, sec_fetch_mode="navigate")
    assert refused(access, form).status == 403


def test_the_token_comes_as_header_or_cookie() -> None:
    access = Access.at("127.0.0.1", token=TOKEN)
    access.check(request(host="localhost", authorization=f"Bearer {TOKEN}"))
    access.check(request(host="localhost", cookie=f"a=b; {COOKIE}={TOKEN}"))
    access.check(request(host="localhost"), needs_token=False)
    password = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    access.check(request(host="localhost", authorization=f"Basic {password}"))
    assert Access.at("127.0.0.1").is_token("") is False


def test_a_cookie_is_of_one_port() -> None:
    """Browsers send the cookies of all ports: two studios must not log each other out."""
    access = Access.at("127.0.0.1", token=TOKEN)
    both = f"{COOKIE}_8765={TOKEN}; {COOKIE}_8766=another-token-of-another-one"
    access.check(request(host="localhost:8765", cookie=both))
    assert refused(access, request(host="localhost:8766", cookie=both)).status == 401


@pytest.mark.parametrize(
    "foreign",
    [
        'a={"x": 1}',
        "theme=a b",
        "x@y=1",
        "a=\xe9",
        "[x]=1",
        "flag",
        "expires=1",
        'a="q',
        "=",
        f"{COOKIE}_80=another",
        f"{COOKIE}_8000x=another",
        f"a={COOKIE}_8000=another",
    ],
)
def test_cookies_of_other_programs_on_this_machine_do_not_hide_ours(foreign: str) -> None:
    access, ours = Access.at("127.0.0.1", token=TOKEN), f"{COOKIE}_8000={TOKEN}"
    for cookies in (f"{foreign}; {ours}", f"{ours}; {foreign}", f"{foreign};{ours};{foreign}"):
        access.check(request(host="localhost:8000", cookie=cookies))
    assert refused(access, request(host="localhost:8000", cookie=foreign)).status == 401
    two = request(host="localhost:8000", cookie=foreign)
    two["headers"] += header_lines({"cookie": ours})  # type: ignore[operator]
    access.check(two)


@pytest.mark.parametrize(
    ("headers", "got"),
    [
        ({}, "no token"),
        ({"authorization": f"Basic {TOKEN}"}, "no token"),
        ({"authorization": "Basic YTpi"}, "another token"),
        ({"authorization": "Bearer "}, "no token"),
        ({"authorization": f"Bearer {TOKEN[:-1]}"}, "another token"),
        ({"authorization": f"Bearer {TOKEN}s"}, "another token"),
        ({"authorization": f"Bearer {TOKEN[:-1]}z"}, "another token"),
        ({"authorization": f"Bearer z{TOKEN[1:]}"}, "another token"),
        ({"cookie": f"{COOKIE}=other"}, "another token"),
        ({"cookie": "\x00=;;"}, "no token"),
    ],
)
def test_without_the_token_nothing_is_answered(headers: dict[str, str], got: str) -> None:
    refusal = refused(Access.at("127.0.0.1", token=TOKEN), request(host="localhost", **headers))
    assert refusal.status == 401
    assert refusal.headers == {"WWW-Authenticate": "Bearer"}
    assert f"the request needs the token: got {got}; allowed: the header" in str(refusal)
    assert TOKEN not in str(refusal)


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def spy(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return compare(one, other)

    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", spy)
    access = Access.at("127.0.0.1", token=TOKEN)
    assert [access.is_token(token) for token in ("", "x", TOKEN[:-1], TOKEN)] == [False] * 3 + [
        True
    ]
    assert len(compared) == 4  # no shortcut by length or first character
    assert {len(digest) for pair in compared for digest in pair} == {32}


def test_pages_of_other_sites_send_the_token_themselves() -> None:
    """Browsers add cookies and passwords to requests, whatever page asks: they prove nothing."""
    access = Access.at("127.0.0.1", token=TOKEN, origins=["http://127.0.0.1:3000"])
    password = f"Basic {base64.b64encode(f'anybody:{TOKEN}'.encode()).decode()}"
    host, cookie = "127.0.0.1:8000", f"{COOKIE}_8000={TOKEN}"
    for origin, is_own in (("http://127.0.0.1:8000", True), ("http://127.0.0.1:3000", False)):
        assert passes(access, request(host=host, origin=origin, cookie=cookie)) is is_own
        assert passes(access, request(host=host, origin=origin, authorization=password)) is is_own
        bearer = f"Bearer {TOKEN}"
        assert passes(access, request(host=host, origin=origin, authorization=bearer))
    refusal = refused(access, request(host=host, origin=origin, cookie=cookie))
    assert (refusal.status, "got no token" in str(refusal)) == (401, True)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("https://App.example/", "https://app.example"),
        ("https://app.example:443", "https://app.example"),
        ("http://app.example:80/", "http://app.example"),
        ("http://app.example:443", "http://app.example:443"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("chrome-extension://abcdefgh", "chrome-extension://abcdefgh"),
    ],
)
def test_an_allowed_origin_is_that_which_browsers_send(given: str, sent: str) -> None:
    access = Access.at("127.0.0.1", origins=[given])
    assert access.origins == (sent,)
    access.check(request(host="localhost:8000", origin=sent))


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "*",
        "",
        "app.example",
        "https://",
        "https://app.example/page",
        "https://a b",
        "https://*.example",
        "https://user@app.example",
        "https://app.example:",
        "https://ä.example",
    ],
)
def test_an_allowed_origin_that_no_browser_sends_is_refused(origin: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        Access.at("127.0.0.1", origins=["https://good.example", origin])
    assert str(caught.value) == (
        f"an allowed origin is not an origin: got {origin!r};"
        " allowed: scheme://host or scheme://host:port, such as https://app.example."
        " Give the beginning of the page's address, up to its host and port."
    )
