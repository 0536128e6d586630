"""The server of a studio, which ends the pages' event streams before it stops."""

import asyncio
from typing import Any

import uvicorn
from fastapi import FastAPI

from unitail.studio.page_events import Hub
from unitail.web.connections import LimitedConnection

STOP_SECONDS = 1
"""How long requests in progress may take after a signal to stop."""


class StudioServer(uvicorn.Server):
    """uvicorn's server; upon a signal it first ends the event streams, which would last forever."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, sockets: Any = None) -> None:  # noqa: ANN401 - as in uvicorn
        """Serve until a signal comes."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:  # noqa: ANN401 - as in uvicorn
        """Begin to stop. A signal interrupts any line, so locks may only be taken in the loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._hub.close)
        super().handle_exit(sig, frame)


def make_server(app: FastAPI) -> StudioServer:
    """Return a server for an application that `make_app` made."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        timeout_graceful_shutdown=STOP_SECONDS,
        http=LimitedConnection,
        ws="none",
    )
    return StudioServer(config, app.state.studio.hub)
