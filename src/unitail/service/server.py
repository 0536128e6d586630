"""An HTTP server that stops without losing a request."""

import asyncio
import signal
from typing import Any

import uvicorn

from unitail.web.connections import LimitedConnection
from unitail.web.guards import Guards

DRAIN_SECONDS = 1.0
"""How long new requests are still answered after the signal to stop, while connections close."""
STOP_SECONDS = 60
"""How long the remaining requests have to be answered after that."""


class GracefulServer(uvicorn.Server):
    """A uvicorn server that, upon a signal, first reports that it is no longer ready.

    A client may be sending a request on an open connection just when the signal comes. So each
    connection is closed with its next answer, while new ones are still accepted for a moment; only
    then does the server stop listening.
    """

    def __init__(self, config: uvicorn.Config, admission: Any, drain_seconds: float) -> None:  # noqa: ANN401
        super().__init__(config)
        self._admission, self._drain_seconds = admission, drain_seconds
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, sockets: Any = None) -> None:  # noqa: ANN401 - as uvicorn has it
        """Serve until a signal comes."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        """Begin to stop; a second signal or SIGINT stops at once."""
        if self._admission.closing or self._loop is None or sig == signal.SIGINT:
            super().handle_exit(sig, frame)
            return
        self._admission.closing = True
        self._loop.call_soon_threadsafe(
            self._loop.call_later, self._drain_seconds, lambda: self._exit(sig)
        )

    def _exit(self, sig: int) -> None:
        super().handle_exit(sig, None)


def make_server(
    app: Guards, host: str, port: int, *, drain_seconds: float = DRAIN_SECONDS
) -> GracefulServer:
    """Return a server for an application that `make_app` made."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=STOP_SECONDS,
        h11_max_incomplete_event_size=32 * 2**10,
        http=LimitedConnection,
        ws="none",
    )
    return GracefulServer(config, app.app, drain_seconds)
