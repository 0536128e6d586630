"""Who may ask: hosts and origins against rebinding and other sites' pages, a token for the rest.

A browser lets any page send requests to this machine. Two checks keep them out. The *host* that a
request names must be one of ours: a page whose name was rebound to 127.0.0.1 names its own. The
*origin*, if the browser tells one, must be the page that we served. Beyond this machine a token is
needed as well.
"""

import base64
import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from threading import Lock
from typing import Self
from urllib.parse import urlsplit

from unitail.errors import InvalidConfig
from unitail.web.replies import Refusal, Scope, header, header_values

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
MIN_TOKEN = 16
"""Characters of a token: a shorter one could be guessed."""
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""What headers and cookies carry as it is."""
COOKIE = "unitail_token"
"""What the names of cookies begin with."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """Who may ask."""

    hosts: tuple[str, ...] | None
    """The hosts that requests may name, without port; None is any."""
    token: str | None
    """What requests must know; None is nothing."""
    origins: tuple[str, ...] = ()
    """Origins of pages that may ask besides our own, such as `https://example.org`."""
    pass_: "Pass | None" = None
    """What a link may bring in place of the token, once."""

    @classmethod
    def at(
        cls,
        host: str,
        *,
        token: str | None = None,
        names: Sequence[str] = (),
        origins: Sequence[str] = (),
        pass_: "Pass | None" = None,
    ) -> Self:
        """Return what is right for a server that listens at `host`.

        On this machine alone, its own names are the hosts. Beyond it, a token is required, and
        hosts are the `names` that the server is reached by, or any if none is given.
        """
        _require_good_token(token)
        local = is_local(host)
        if not local and token is None:
            raise InvalidConfig(
                "a server that others can reach needs a token",
                got=f"host {host} without a token",
                allowed=f"a token of {MIN_TOKEN} characters or more, or host 127.0.0.1",
                remedy="Give a token, or listen on this machine alone.",
            )
        hosts = (*LOCAL_HOSTS, *names) if local or names else None
        return cls(
            hosts=None if hosts is None else tuple(name.lower() for name in hosts),
            token=token,
            origins=tuple(origin.lower() for origin in origins),
            pass_=pass_,
        )

    def check(self, scope: Scope, *, needs_token: bool = True) -> None:
        """Raise a `Refusal` unless the request may be answered."""
        self._check_host(scope)
        self._check_origin(scope)
        if needs_token and self.token is not None:
            self._check_token(scope)

    def is_token(self, token: str) -> bool:
        """Tell whether this is the token, in a time that says nothing about how near it is."""
        return self.token is not None and hmac.compare_digest(_digest(token), _digest(self.token))

    def token_for(self, given: str) -> str | None:
        """Return the token for a link that has it, or the pass, which is then used up."""
        if self.is_token(given) or (self.pass_ is not None and self.pass_.use(given)):
            return self.token
        return None

    def _check_host(self, scope: Scope) -> None:
        named = header_values(scope, "host")
        host = _host_name(named[0]) if len(named) == 1 else None
        if host is None:
            raise Refusal(
                400,
                "the request does not name one host",
                got=", ".join(named) or "no host",
                allowed="one header Host: name or name:port",
            )
        if self.hosts is not None and host not in self.hosts:
            raise Refusal(
                403,
                "the request names a host that is not this server",
                got=host,
                allowed=", ".join(self.hosts),
                remedy="Ask by one of these names, or start the server with the name allowed.",
            )

    def _check_origin(self, scope: Scope) -> None:
        origin = header(scope, "origin")
        if origin is None:
            self._check_site(scope)
            return
        own = urlsplit(origin).netloc.lower() == (header(scope, "host") or "").lower()
        if origin == "null" or not (own or origin.lower() in self.origins):
            raise Refusal(
                403,
                "a page of another site asks",
                got=f"origin {origin}",
                allowed=", ".join(("pages of this server", *self.origins)),
                remedy="Start the server with the origin allowed.",
            )

    def _check_site(self, scope: Scope) -> None:
        """Refuse what a page elsewhere embeds; a link to us that somebody follows is fine."""
        site = header(scope, "sec-fetch-site")
        followed = header(scope, "sec-fetch-mode") == "navigate" and scope.get("method") == "GET"
        if site not in (None, "same-origin", "none") and not followed:
            raise Refusal(
                403,
                "a page of another site asks",
                got=f"sec-fetch-site {site}",
                allowed="pages of this server",
                remedy="Open the page of this server itself.",
            )

    def _check_token(self, scope: Scope) -> None:
        given = _bearer(scope) or _cookie(scope)
        if given is None or not self.is_token(given):
            raise Refusal(
                401,
                "the request does not know the token",
                got="no token" if given is None else "another token",
                allowed="the header `Authorization: Bearer TOKEN`",
                remedy="Send the token that the server was started with.",
                headers={"WWW-Authenticate": "Bearer"},
            )


class Pass:
    """What opens a page once, of this server alone: elsewhere and later it is worth nothing."""

    def __init__(self) -> None:
        self.text = new_token()
        self._lock, self._used = Lock(), False

    def use(self, given: str) -> bool:
        """Tell whether this is the pass and nobody has used it; now it is used."""
        with self._lock:
            good = not self._used and hmac.compare_digest(_digest(given), _digest(self.text))
            self._used = self._used or good
            return good


def new_token() -> str:
    """Make a token that nobody guesses."""
    return secrets.token_urlsafe(32)


def is_local(host: str) -> bool:
    """Tell whether a server at this host is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def cookie_name(scope: Scope) -> str:
    """Name the cookie of the port that a request names: browsers share cookies among ports."""
    port = urlsplit(f"//{header(scope, 'host')}").port
    return COOKIE if port is None else f"{COOKIE}_{port}"


def _require_good_token(token: str | None) -> None:
    if token is None:
        return
    is_long, is_plain = len(token) >= MIN_TOKEN, TOKEN.fullmatch(token) is not None
    if not (is_long and is_plain):
        raise InvalidConfig(
            "the token is too easy to guess" if is_plain else "the token cannot be sent as it is",
            got=f"{len(token)} characters" if is_plain else "other characters",
            allowed=f"{MIN_TOKEN} or more letters, digits and -._~+/ (and = at the end)",
            remedy='Make one: python -c "import secrets; print(secrets.token_urlsafe(32))".',
        )


def _digest(token: str) -> bytes:
    """Hash a token: digests are of one length, so not even the token's own leaks."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _host_name(netloc: str) -> str | None:
    """Return the name in `name:port`, in lower case; None if there is none."""
    try:
        parts = urlsplit(f"//{netloc}")
        _ = parts.port  # raises if it is no number
    except ValueError:
        return None
    return parts.hostname if parts.netloc == netloc and "@" not in netloc else None


def _bearer(scope: Scope) -> str | None:
    """Return the token of the header, or the password of programs that know only such."""
    scheme, _, token = (header(scope, "authorization") or "").partition(" ")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(token, validate=True).decode().partition(":")[2]
        except ValueError:
            return None
    return token.strip() if scheme.lower() == "bearer" else None


def _cookie(scope: Scope) -> str | None:
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(header(scope, "cookie") or "")
    except CookieError:
        return None
    name = cookie_name(scope)
    return cookies[name].value if name in cookies else None
