"""A server that stops without losing a request."""

import asyncio
import signal
from typing import Any

import uvicorn

from unitail.web.connections import LimitedConnection
from unitail.web.guards import Guards

DRAIN_SECONDS = 1.0
"""After the signal to stop, new requests are still answered for so long, and connections closed."""
STOP_SECONDS = 60
"""Then requests at work have so long to be answered."""


class GracefulServer(uvicorn.Server):
    """uvicorn's server, which upon a signal first says that it is not ready any more.

    A client may be sending a request on an open connection just when the signal comes. Therefore
    connections are closed with their next answer, while new ones are still taken, and only then is
    the door shut.
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
        """Begin to stop; a second signal does so at once."""
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
