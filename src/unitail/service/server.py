"""An HTTP server that stops without losing a request."""

import asyncio
import socket
from contextlib import suppress
from typing import Any

import uvicorn

from unitail.web.connections import LimitedConnection
from unitail.web.guards import Guards

DRAIN_SECONDS = 1.0
"""How long new requests are still answered after the signal to stop, while connections close."""
REST_SECONDS = 0.2
"""How long requests may take to arrive on connections that were accepted last."""
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
        """Begin to stop; a second signal stops at once."""
        if self._admission.closing or self._loop is None:
            super().handle_exit(sig, frame)
            self.force_exit = self._admission.closing  # uvicorn does so for SIGINT alone
            return
        self._admission.closing = True
        self._loop.call_soon_threadsafe(
            self._loop.call_later, self._drain_seconds, lambda: self._exit(sig)
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept the connections that are queued, stop listening, and wait for all answers.

        Closing a listener resets the connections that the system has queued there.
        """
        loop = asyncio.get_running_loop()
        for connection in self._accept_queued():
            await loop.connect_accepted_socket(self._protocol, connection)
        if not self.force_exit:
            await asyncio.sleep(REST_SECONDS)
        await super().shutdown(sockets)

    def _accept_queued(self) -> list[socket.socket]:
        accepted: list[socket.socket] = []
        for server in self.servers:
            for each in server.sockets:
                with each.dup() as listener, suppress(OSError):  # until there are none
                    listener.setblocking(False)
                    while True:
                        accepted.append(listener.accept()[0])
            server.close()
        return accepted

    def _protocol(self) -> asyncio.Protocol:
        """Return the protocol of a connection, as uvicorn makes it."""
        protocol: asyncio.Protocol = LimitedConnection(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

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
