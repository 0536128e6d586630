"""How much of a request is read, and how long: a body that is too large or too slow is refused."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass

from unitail.web.replies import Message, Receive, Refusal, Scope, header

FORM = "multipart/form-data"
MAX_DRAINED, DRAIN_SECONDS = 64 * 2**20, 5.0
"""Of a body that is refused, at most: bytes that are read after all, and the time for them."""
MAX_DRAINED_OF_STRANGERS, STRANGER_SECONDS = 32 * 2**20, 1.0
"""The same where the gate lets nobody in: such requests should hold nothing for long."""


@dataclass(frozen=True, kw_only=True)
class BodyLimits:
    """How much of a request is read."""

    max_bytes: int
    """Of a body that is no form; it is parsed in one piece, while everything else waits."""
    max_form_bytes: int
    """Of a form with files."""
    max_seconds: float
    """Spent waiting for it, in all."""

    def bytes_for(self, scope: Scope) -> int:
        """Return the bytes that the body of a request may have, by what it says it is."""
        kind = (header(scope, "content-type") or "").strip().lower()
        return self.max_form_bytes if kind.startswith(FORM) else self.max_bytes


class LimitedBody:
    """A `receive` that ends with a `Refusal` once a limit is passed."""

    def __init__(self, receive: Receive, *, max_bytes: int, max_seconds: float) -> None:
        self._receive, self._max_bytes, self._max_seconds = receive, max_bytes, max_seconds
        self._waited = 0.0
        self._bytes, self._complete = 0, False
        self.refusal: Refusal | None = None
        """Why the body was not read to its end, if so."""

    def check_announced(self, scope: Scope) -> None:
        """Refuse by the length that the request announces, before anything is read."""
        length = header(scope, "content-length")
        if length is not None and not (length.isascii() and length.isdigit()):
            raise Refusal(
                400,
                "the length of the body is not a number",
                got=length[:40],
                allowed="digits",
            )
        if length is not None and int(length) > self._max_bytes:
            raise self._too_large(f"{int(length):,} bytes")

    async def __call__(self) -> Message:
        """Return what comes next."""
        if self._complete:  # what follows is the end of the connection, which may take its time
            return await self._receive()
        asked = time.monotonic()  # only waiting counts: what has come and is read late is not slow
        try:
            message = await asyncio.wait_for(self._receive(), self._max_seconds - self._waited)
        except TimeoutError:
            self.refusal = Refusal(
                408,
                "the body took too long to arrive",
                got=f"{self._bytes:,} bytes in {self._max_seconds:g} s",
                allowed=f"all of it within {self._max_seconds:g} s",
                remedy="Send less at a time.",
                headers={"Connection": "close"},
            )
            raise self.refusal from None
        self._waited += time.monotonic() - asked
        self._count(message)
        return message

    async def drain(self, scope: Scope, *, is_stranger: bool = False) -> bool:
        """Read what is still on its way, and keep nothing of it; tell whether that was all.

        Who is sending hears nothing before all is sent: if the connection ended meanwhile, that
        would be all they learn. Whoever asked whether to send, and was not told to, has not begun.
        """
        if not (header(scope, "content-length") or header(scope, "transfer-encoding")):
            return True
        if header(scope, "expect") is not None and not self._bytes:
            return False
        left = MAX_DRAINED_OF_STRANGERS if is_stranger else MAX_DRAINED
        with suppress(TimeoutError):
            async with asyncio.timeout(STRANGER_SECONDS if is_stranger else DRAIN_SECONDS):
                while not self._complete and left > 0:
                    message = await self._receive()
                    left -= len(message.get("body", b""))
                    self._complete = not message.get("more_body", False)
        return self._complete

    def _count(self, message: Message) -> None:
        self._bytes += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._bytes > self._max_bytes:
            self.refusal = self._too_large(f"more than {self._max_bytes:,} bytes")
            raise self.refusal

    def _too_large(self, got: str) -> Refusal:
        return Refusal(
            413,
            "the body is too large",
            got=got,
            allowed=f"at most {self._max_bytes:,} bytes",
            remedy="Send less at a time.",
            headers={"Connection": "close"},
        )
