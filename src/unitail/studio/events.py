"""News for all pages that are open: server-sent events, from any thread."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator

MAX_WAITING = 2000
"""News that a page may have missed; one that is slower is told to load everything again."""
PING_SECONDS = 15.0

Queue = asyncio.Queue[str | None]


class Hub:
    """Hands news to whoever listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[Queue, asyncio.AbstractEventLoop] = {}
        self._closed = False

    def tell(self, name: str, content: object) -> None:
        """Hand news to all; `content` is what JSON can say."""
        if not self._listeners:
            return
        self._put(f"event: {name}\ndata: {json.dumps(content, separators=(',', ':'))}\n\n")

    def close(self) -> None:
        """Say goodbye to all."""
        self._closed = True
        self._put(None)

    async def listen(self, first: str = "") -> AsyncIterator[str]:
        """Give news as they come, in the format of server-sent events."""
        queue: Queue = asyncio.Queue(MAX_WAITING)
        with self._lock:
            self._listeners[queue] = asyncio.get_running_loop()
        try:
            yield f"retry: 1000\n{first}\n"
            while not self._closed:
                try:
                    news = await asyncio.wait_for(queue.get(), PING_SECONDS)
                except TimeoutError:
                    news = ": still here\n\n"
                if news is None:
                    return
                yield news
        finally:
            with self._lock:
                self._listeners.pop(queue, None)

    def _put(self, news: str | None) -> None:
        with self._lock:
            listeners = list(self._listeners.items())
        for queue, loop in listeners:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_offer, queue, news)


def _offer(queue: Queue, news: str | None) -> None:
    """Put news in a queue; if it is full, the page must begin anew."""
    if queue.full():
        while not queue.empty():
            queue.get_nowait()
        news = None  # the page connects again, and loads everything
    queue.put_nowait(news)
