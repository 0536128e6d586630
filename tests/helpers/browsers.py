"""Pages in a real browser, and studios for them."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from helpers.studios import open_studio, wait_until
from unitail.studio.app import make_app
from unitail.web.access import Access

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
ERRORS: list[str] = []
"""What went wrong on any page."""


@contextmanager
def served_here(source: Path, **options: Any) -> Iterator[str]:  # noqa: ANN401
    """Serve a studio in a thread of this process, which has imported everything already."""
    app = make_app(open_studio(source, **options), Access.at("127.0.0.1"))
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="error", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(60)


def open_page(
    browser: Any,  # noqa: ANN401
    url: str,
    width: int = 1280,
    height: int = 800,
    *,
    deaf: bool = False,
    **options: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Open the page; a deaf one hears no news."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.on("pageerror", lambda error: ERRORS.append(f"{error}"))
    if deaf:  # it is told hello, and then nothing more
        hello = 'event: hello\ndata: "deaf"\n\n'
        page.route(
            "**/api/events",
            lambda route: route.fulfill(
                content_type="text/event-stream", body=f"retry: 600000\n{hello}"
            ),
        )
    page.goto(url)
    page.wait_for_selector(".card")
    return page
