"""Server-sent events for all open pages; any thread may publish them."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator

MAX_WAITING = 2000
"""Events queued for one page; a slower page must reload everything."""
PING_SECONDS = 15.0

Queue = asyncio.Queue[str | None]


class Hub:
    """Distributes events to all pages that listen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[Queue, asyncio.AbstractEventLoop] = {}
        self._closed = False

    def publish(self, name: str, content: object) -> None:
        """Send an event to all pages; `content` must be serialisable as JSON."""
        if not self._listeners:
            return
        self._put(f"event: {name}\ndata: {json.dumps(content, separators=(',', ':'))}\n\n")

    def close(self) -> None:
        """End the streams of all pages."""
        self._closed = True
        self._put(None)

    async def listen(self, first: str = "") -> AsyncIterator[str]:
        """Yield events as they come, in the format of server-sent events."""
        queue: Queue = asyncio.Queue(MAX_WAITING)
        with self._lock:
            self._listeners[queue] = asyncio.get_running_loop()
        try:
            yield f"retry: 1000\n{first}\n"
            while not self._closed:
                try:
                    event = await asyncio.wait_for(queue.get(), PING_SECONDS)
                except TimeoutError:
                    event = ": still here\n\n"
                if event is None:
                    return
                yield event
        finally:
            with self._lock:
                self._listeners.pop(queue, None)

    def _put(self, event: str | None) -> None:
        with self._lock:
            listeners = list(self._listeners.items())
        for queue, loop in listeners:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_offer, queue, event)


def _offer(queue: Queue, event: str | None) -> None:
    """Put an event into a queue; if the queue is full, end the stream instead."""
    if queue.full():
        while not queue.empty():
            queue.get_nowait()
        event = None  # the page reconnects and reloads everything
    queue.put_nowait(event)
