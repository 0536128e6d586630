"""ASGI middleware with access checks, limits of bodies, and security headers for browsers."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from html import escape
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import ClientDisconnect

from unitail.web.access import Access, cookie_name
from unitail.web.body import BodyLimits, LimitedBody
from unitail.web.replies import (
    App,
    Message,
    Receive,
    Refusal,
    Scope,
    Send,
    header,
    send_html,
    send_json,
)

NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""The content security policy of answers that are not pages."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer that does not set them itself."""
CLOSE = {"Connection": "close"}
"""Header of an answer before the end of a body, which the server would otherwise go on reading."""
TOKEN_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>unitail</title>"
    "<h1>This page needs its token</h1><p>{}</p></html>"
)
"""The page shown to browsers that come without the token."""
IN_LINK = "Open the link that unitail printed when it started: it ends in ?token=…"
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
}
"""What pages of other sites may send, if their origin is allowed; never cookies."""


@dataclass(frozen=True, eq=False)
class Guards:
    """An application behind the access checks; it is an ASGI application itself.

    With FastAPI: `app.add_middleware(Guards, access=Access.at("127.0.0.1"), limits=LIMITS)`.
    """

    app: App
    _: KW_ONLY
    access: Access
    limits: BodyLimits
    content_policy: str = NOTHING
    """The Content-Security-Policy of answers that do not set their own."""
    open_paths: frozenset[str] = frozenset()
    """Paths that are answered without the token, for health checks."""
    where_token: str = IN_LINK
    """A sentence for people on where to find the token."""
    on_refusal: Callable[[int], None] = lambda status: None
    """Called with the status of each request that is refused here."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "http":
            send = _with_headers(send, {**self._headers, **self.access.cors(scope)})
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._connect(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    @property
    def _headers(self) -> dict[str, str]:
        return {**HEADERS, "Content-Security-Policy": self.content_policy}

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = LimitedBody(
            receive, max_bytes=self.limits.bytes_for(scope), max_seconds=self.limits.max_seconds
        )
        is_stranger = True
        try:
            if self.access.is_preflight(scope):
                self.access.check(scope, needs_token=False)  # browsers send none yet
                await send_json(send, 200, {}, PREFLIGHT)
                return
            token = self._token_in_link(scope)
            self.access.check(
                scope, needs_token=token is None and scope["path"] not in self.open_paths
            )
            is_stranger = False
            body.check_announced(scope)
        except Refusal as refusal:
            self.on_refusal(refusal.status)
            is_read = await body.drain(scope, is_stranger=is_stranger)
            await self._refuse(scope, send if is_read else _with_headers(send, CLOSE), refusal)
            return
        if token is not None:
            await _keep_token(scope, send, token)
        else:
            await _run_app(self.app, scope, body, send)

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self.access.check(scope)
        except Refusal:
            await receive()  # the request to connect
            await send({"type": "websocket.close", "code": 1008})
            return
        await self.app(scope, receive, send)

    def _token_in_link(self, scope: Scope) -> str | None:
        """Return the token if the request is a link `/?token=...` with the token or the pass."""
        if scope["method"] != "GET" or header(scope, "authorization") is not None:
            return None
        secret = dict(_query(scope)).get("token")
        if secret is None:
            return None
        self.access.check(scope, needs_token=False)  # other sites must not use up the pass
        return self.access.token_for(secret)

    async def _refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        """Answer with the refusal, or with a page that explains where to find the token."""
        is_page = scope["method"] == "GET" and "text/html" in (header(scope, "accept") or "")
        if refusal.status == 401 and is_page:
            page = TOKEN_PAGE.format(escape(self.where_token))
            await send_html(send, refusal.status, page)
        else:
            await send_json(send, refusal.status, refusal.content, refusal.headers)


async def _run_app(app: App, scope: Scope, body: LimitedBody, send: Send) -> None:
    """Run the application; if its body was refused, answer with that refusal in any case."""
    started = False

    async def watched(message: Message) -> None:
        nonlocal started
        if body.refusal is not None and not started:
            return
        started = True
        await send(message)

    try:
        await app(scope, body, watched)
    except ClientDisconnect:
        return  # within its body: there is nobody to answer, and nothing to report
    except Exception:
        if started or body.refusal is None:
            raise
    if body.refusal is not None and not started:
        refusal = body.refusal
        if refusal.status != 408:  # after a timeout there is nothing to read
            await body.drain(scope)
        # Both refusals of bodies close the connection, however much was read.
        await send_json(send, refusal.status, refusal.content, refusal.headers)


async def _keep_token(scope: Scope, send: Send, token: str) -> None:
    """Move the token from the link to a cookie, to keep it out of the address and the history."""
    query = urlencode([pair for pair in _query(scope) if pair[0] != "token"])
    # Two leading slashes would redirect to another server.
    path = "/" + scope["path"].lstrip("/")
    target = quote(path) + (f"?{query}" if query else "")
    # Lax: links in chats and files come from other sites. Requests of other sites' pages are
    # refused by their origin, whatever cookies they carry.
    cookie = f"{cookie_name(scope)}={token}; Path=/; HttpOnly; SameSite=Lax"
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    await send_json(send, 303, {}, {"Location": target, "Set-Cookie": cookie + secure})


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


def _with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """Return a `send` that adds those headers that an answer does not have yet."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            lines = list(message.get("headers", []))
            existing = {name.lower() for name, _ in lines}
            for name, value in headers.items():
                if name.lower().encode() not in existing:
                    lines.append((name.lower().encode(), value.encode("latin-1")))
            message = {**message, "headers": lines}
        await send(message)

    return send_with_headers
