"""Limits the size of request bodies and the time they take to arrive."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass

from unitail.web.replies import Message, Receive, Refusal, Scope, header

FORM = "multipart/form-data"
MAX_DRAINED, DRAIN_SECONDS = 64 * 2**20, 5.0
"""Bytes of a refused body that are still read and discarded, and the time for this."""
MAX_DRAINED_OF_STRANGERS, STRANGER_SECONDS = 32 * 2**20, 1.0
"""The same for requests without access, which should not occupy the server for long."""


@dataclass(frozen=True, kw_only=True)
class BodyLimits:
    """Limits of a request body."""

    max_bytes: int
    """Largest body that is not a form; it is parsed in one piece, while everything else waits."""
    max_form_bytes: int
    """Largest form with files."""
    max_seconds: float
    """Total time spent waiting for the body."""

    def bytes_for(self, scope: Scope) -> int:
        """Return the largest body that a request may have, given its content type."""
        kind = (header(scope, "content-type") or "").strip().lower()
        return self.max_form_bytes if kind.startswith(FORM) else self.max_bytes


class LimitedBody:
    """An ASGI `receive` that raises a `Refusal` once a limit is exceeded."""

    def __init__(self, receive: Receive, *, max_bytes: int, max_seconds: float) -> None:
        self._receive, self._max_bytes, self._max_seconds = receive, max_bytes, max_seconds
        self._waited = 0.0
        self._bytes, self._complete = 0, False
        self.refusal: Refusal | None = None
        """Why the body was not read to its end; None if it was not refused."""

    def check_announced(self, scope: Scope) -> None:
        """Refuse a body by its announced length, before anything is read."""
        length = header(scope, "content-length")
        if length is not None and header(scope, "transfer-encoding") is not None:
            raise Refusal(
                400,
                "the length of the body is announced in two ways",
                got="Content-Length and Transfer-Encoding",
                allowed="one of them",
                headers={"Connection": "close"},  # where the body ends, others may see differently
            )
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
        """Return the next message of the request."""
        if self._complete:  # the next message is the disconnect, which may take any time
            return await self._receive()
        start = time.monotonic()  # only waiting counts, not the time until the body is read
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
        self._waited += time.monotonic() - start
        self._count(message)
        return message

    async def drain(self, scope: Scope, *, is_stranger: bool = False) -> bool:
        """Read and discard the rest of the body; return whether all of it was read.

        Clients read the answer only after sending everything: if the connection were closed
        earlier, they would see nothing but an error. A client that sent an Expect header waits to
        be told before it sends the body, so there is nothing to read.
        """
        if not (header(scope, "content-length") or header(scope, "transfer-encoding")):
            return True
        if header(scope, "expect") is not None and not self._bytes:
            return False
        remaining = MAX_DRAINED_OF_STRANGERS if is_stranger else MAX_DRAINED
        with suppress(TimeoutError):
            async with asyncio.timeout(STRANGER_SECONDS if is_stranger else DRAIN_SECONDS):
                while not self._complete and remaining > 0:
                    message = await self._receive()
                    remaining -= len(message.get("body", b""))
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
