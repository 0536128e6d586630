"""Access checks: hosts against DNS rebinding, origins against other sites' pages, and a token.

A browser lets any page send requests to this machine. Two checks keep them out. The *host* named in
a request must be one of ours: a page whose domain was rebound to 127.0.0.1 names its own. The
*origin*, if the browser sends one, must be a page that we served. Requests from other machines also
need a token.
"""

import base64
import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Self
from urllib.parse import urlsplit

from unitail.errors import InvalidConfig
from unitail.web.replies import Refusal, Scope, header, header_values

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
MIN_TOKEN = 16
"""Length of the shortest token, in characters: a shorter one could be guessed."""
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""Tokens that headers and cookies can carry unquoted."""
ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?/?")
"""Origins of pages, in lower case; browsers send those outside ASCII encoded."""
DEFAULT_PORTS = {"http": "80", "https": "443"}
"""Ports that browsers leave out."""
COOKIE = "unitail_token"
"""Prefix of the cookies' names."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """The rules that decide which requests are answered."""

    hosts: tuple[str, ...] | None
    """Hosts that requests may name, without port; None allows any."""
    token: str | None
    """Token that requests must carry; None if none is needed."""
    origins: tuple[str, ...] = ()
    """Origins of other pages that may send requests, such as `https://example.org`."""
    pass_: "Pass | None" = None
    """One-time pass that a link may carry instead of the token."""

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
        """Return the rules for a server that listens at `host`.

        On a local address, the hosts are this machine's own names. Otherwise a token is required,
        and the hosts are the `names` that clients use for the server, or any if none are given.
        """
        _require_good_token(token)
        only_local = is_local(host)
        if not only_local and token is None:
            raise InvalidConfig(
                "a server that others can reach needs a token",
                got=f"host {host} without a token",
                allowed=f"a token of {MIN_TOKEN} characters or more, or host 127.0.0.1",
                remedy="Set a token, or listen on this machine alone.",
            )
        hosts = (*LOCAL_HOSTS, *names) if only_local or names else None
        return cls(
            hosts=None if hosts is None else tuple(name.lower() for name in hosts),
            token=token,
            origins=tuple(_good_origin(origin) for origin in origins),
            pass_=pass_,
        )

    def check(self, scope: Scope, *, needs_token: bool = True) -> None:
        """Raise a `Refusal` unless the request may be answered."""
        self._check_host(scope)
        self._check_origin(scope)
        if needs_token and self.token is not None:
            self._check_token(scope)

    def is_preflight(self, scope: Scope) -> bool:
        """Return whether a browser asks, for a page of an allowed origin, what it may send."""
        asked = header(scope, "access-control-request-method")
        is_asked = scope.get("method") == "OPTIONS" and asked is not None
        return is_asked and self._is_allowed(header(scope, "origin"))

    def cors(self, scope: Scope) -> dict[str, str]:
        """Return the headers that let pages of an allowed origin read the answer; else none.

        Cookies stay out: such pages send the token in a header.
        """
        origin = header(scope, "origin")
        if origin is None or not self._is_allowed(origin):
            return {"Vary": "Origin"} if self.origins else {}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Expose-Headers": "Retry-After",
            "Vary": "Origin",
        }

    def _is_allowed(self, origin: str | None) -> bool:
        return origin is not None and origin.lower() in self.origins

    def is_token(self, token: str) -> bool:
        """Return whether this is the token, comparing in constant time."""
        return self.token is not None and hmac.compare_digest(_digest(token), _digest(self.token))

    def token_for(self, secret: str) -> str | None:
        """Return the token if a link's secret is the token or the pass, which is then used up."""
        if self.is_token(secret) or (self.pass_ is not None and self.pass_.use(secret)):
            return self.token
        return None

    def _check_host(self, scope: Scope) -> None:
        values = header_values(scope, "host")
        host = _host_name(values[0]) if len(values) == 1 else None
        if host is None:
            raise Refusal(
                400,
                "the request must name exactly one host",
                got=", ".join(values) or "no host",
                allowed="one header Host: name or name:port",
            )
        if self.hosts is not None and host not in self.hosts:
            raise Refusal(
                403,
                "the request names a host that is not this server",
                got=host,
                allowed=", ".join(self.hosts),
                remedy="Use one of these names, or start the server with this name allowed.",
            )

    def _check_origin(self, scope: Scope) -> None:
        origin = header(scope, "origin")
        if origin is None:
            self._check_site(scope)
            return
        if origin == "null" or not (_is_own(scope, origin) or self._is_allowed(origin)):
            raise Refusal(
                403,
                "the request comes from a page of another site",
                got=f"origin {origin}",
                allowed=", ".join(("pages of this server", *self.origins)),
                remedy="Start the server with this origin allowed.",
            )

    def _check_site(self, scope: Scope) -> None:
        """Refuse requests embedded in other sites' pages; following a link to us is allowed."""
        site = header(scope, "sec-fetch-site")
        is_link = header(scope, "sec-fetch-mode") == "navigate" and scope.get("method") == "GET"
        if site not in (None, "same-origin", "none") and not is_link:
            raise Refusal(
                403,
                "the request comes from a page of another site",
                got=f"sec-fetch-site {site}",
                allowed="pages of this server",
                remedy="Open the page of this server itself.",
            )

    def _check_token(self, scope: Scope) -> None:
        origin, token = header(scope, "origin"), _bearer(scope)
        if origin is None or _is_own(scope, origin):
            # What browsers add by themselves is no proof that another site's page has the token.
            token = token or _password(scope) or _cookie(scope)
        if token is None or not self.is_token(token):
            raise Refusal(
                401,
                "the request needs the token",
                got="no token" if token is None else "another token",
                allowed="the header `Authorization: Bearer TOKEN`",
                remedy="Send the token that the server was started with.",
                headers={"WWW-Authenticate": "Bearer"},
            )


class Pass:
    """A secret that opens a page of this server once, and is then worthless."""

    def __init__(self) -> None:
        self.text = new_token()
        self._lock, self._used = Lock(), False

    def use(self, text: str) -> bool:
        """Return whether this is the pass and still unused, and mark it as used if so."""
        with self._lock:
            is_valid = not self._used and hmac.compare_digest(_digest(text), _digest(self.text))
            self._used = self._used or is_valid
            return is_valid


def new_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(32)


def is_local(host: str) -> bool:
    """Return whether a server at this host can be reached only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def cookie_name(scope: Scope) -> str:
    """Return the name of the cookie for a request's port: browsers share cookies over ports."""
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


def _good_origin(text: str) -> str:
    """Return an origin as browsers send it: in lower case, without slash and default port."""
    match = ORIGIN.fullmatch(text.lower())
    if match is None:
        raise InvalidConfig(
            "an allowed origin is not an origin",
            got=repr(text[:80]),
            allowed="scheme://host or scheme://host:port, such as https://app.example",
            remedy="Give the beginning of the page's address, up to its host and port.",
        )
    scheme, host, port = match.groups()
    return f"{scheme}://{host}" + (f":{port}" if port and port != DEFAULT_PORTS.get(scheme) else "")


def _digest(token: str) -> bytes:
    """Return the hash of a token: all have the same length, so not even that of the token leaks."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _is_own(scope: Scope, origin: str) -> bool:
    """Return whether an origin is that of the pages of this server."""
    try:
        return urlsplit(origin).netloc.lower() == (header(scope, "host") or "").lower()
    except ValueError:
        return False


def _host_name(netloc: str) -> str | None:
    """Return the name in `name:port`, in lower case; None if there is none."""
    try:
        parts = urlsplit(f"//{netloc}")
        _ = parts.port  # raises if it is not a number
    except ValueError:
        return None
    return parts.hostname if parts.netloc == netloc and "@" not in netloc else None


def _bearer(scope: Scope) -> str | None:
    scheme, token = _authorization(scope)
    return token.strip() if scheme == "bearer" else None


def _password(scope: Scope) -> str | None:
    """Return the password of basic authentication; None without one."""
    scheme, text = _authorization(scope)
    if scheme != "basic":
        return None
    try:
        return base64.b64decode(text, validate=True).decode().partition(":")[2]
    except ValueError:
        return None


def _authorization(scope: Scope) -> tuple[str, str]:
    """Return the scheme of the authorization, in lower case, and the rest."""
    scheme, _, text = (header(scope, "authorization") or "").partition(" ")
    return scheme.lower(), text


def _cookie(scope: Scope) -> str | None:
    """Return the token in our cookie; None without one.

    Cookies of a host are those of all its ports: what other programs store there may be anything.
    """
    ours, cookies = cookie_name(scope), ";".join(header_values(scope, "cookie"))
    pairs = [pair.partition("=") for pair in cookies.split(";")]
    values = [value.strip() for name, _, value in pairs if name.strip() == ours]
    return values[-1] if values else None
