"""The studio as an HTTP application: its page, its API, and the access checks in front of both."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

from unitail.errors import Unreadable, UserError
from unitail.studio.routes import (
    AUTHOR,
    Browser,
    class_routes,
    export_routes,
    history_routes,
    item_routes,
    new_browser,
    state_routes,
)
from unitail.studio.stored_rows import ClassRow, Conflict, LabelRow, StoreUnavailable
from unitail.studio.studio import Studio
from unitail.web.access import Access
from unitail.web.body import BodyLimits
from unitail.web.guards import Guards
from unitail.web.replies import Refusal
from unitail.wording import excerpt

STATIC = Path(__file__).parent / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " media-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none';"
    " form-action 'none'"
)
LIMITS = BodyLimits(max_bytes=4 * 2**20, max_form_bytes=0, max_seconds=30.0)

YEAR = 365 * 24 * 60 * 60
STATUSES = {Unreadable: 404, StoreUnavailable: 503}
"""HTTP statuses by error; all others are 400."""


def make_app(studio: Studio, access: Access) -> FastAPI:
    """Return the application, which starts and stops the studio's threads with itself."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        studio.start()
        yield
        studio.stop()

    app = FastAPI(title="unitail studio", lifespan=lifespan, openapi_url=None)
    app.state.studio = studio
    for routes in (state_routes, item_routes, class_routes, history_routes, export_routes):
        app.include_router(routes(studio))
    app.add_exception_handler(UserError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)

    @app.get("/", include_in_schema=False)
    def page(browser: Browser = "") -> FileResponse:
        reply = FileResponse(STATIC / "index.html")
        author = browser or new_browser()
        reply.set_cookie(AUTHOR, author, max_age=YEAR, httponly=True, samesite="lax")
        return reply

    app.mount("/static", StaticFiles(directory=STATIC))
    app.add_middleware(Guards, access=access, limits=LIMITS, content_policy=POLICY)
    return app


def _refused(request: Request, error: Exception) -> JSONResponse:
    """Answer an error with its message; a conflict also lists what others changed."""
    assert isinstance(error, UserError)
    content: dict[str, Any] = {"error": str(error)}
    if not isinstance(error, Conflict):
        status = error.status if isinstance(error, Refusal) else STATUSES.get(type(error), 400)
        return JSONResponse(content, status)
    places = request.app.state.studio.catalogue.places
    content["conflicts"] = [
        [places[row.item], row.class_id, row.version]
        for row in error.rows
        if isinstance(row, LabelRow) and row.item in places
    ]
    content["classes"] = [asdict(row) for row in error.rows if isinstance(row, ClassRow)]
    return JSONResponse(content, 409)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Answer a malformed request with one sentence about its first error."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = " ".join(str(step) for step in first["loc"][1:]) or "the body"
    refusal = Refusal(
        422,
        f"the request is invalid at {where}",
        got=excerpt(repr(first.get("input")), 60),
        allowed=str(first["msg"]),
    )
    return JSONResponse(refusal.content, refusal.status)
