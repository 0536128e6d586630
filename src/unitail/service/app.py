"""The service as an HTTP application: routes, error replies, and the access checks in front."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

import unitail
from unitail.errors import CannotWrite, UserError
from unitail.service import label_studio
from unitail.service.admission import Admission
from unitail.service.api_page import PAGE_POLICY, api_page
from unitail.service.routes import router
from unitail.service.service import Service
from unitail.web.access import Access
from unitail.web.body import BodyLimits
from unitail.web.guards import Guards
from unitail.web.replies import Refusal
from unitail.wording import excerpt

TOKEN_SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "description": "The token that the server was started with; not needed if it has none.",
}
OPEN_PATHS = frozenset({"/health", "/ready"})
"""Paths that monitors may request without the token."""


def make_app(service: Service, access: Access) -> Guards:
    """Return the complete application, for a server to run."""
    app = FastAPI(
        title="unitail",
        version=unitail.__version__,
        summary="Few-shot classifiers over HTTP.",
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.include_router(router)
    app.include_router(label_studio.router)
    _add_pages(app, service)
    _add_errors(app)
    limits = service.limits
    body_limits = BodyLimits(
        max_bytes=limits.json_bytes,
        max_form_bytes=limits.body_bytes,
        max_seconds=limits.body_seconds,
    )
    app.state.admission = Admission(app, service.metrics, limits, body_limits)
    return Guards(
        app.state.admission,
        access=access,
        limits=body_limits,
        open_paths=OPEN_PATHS,
        where_token=WHERE_TOKEN,
        on_refusal=lambda status: service.metrics.count_request("refused", status),
    )


WHERE_TOKEN = (
    "Programs send it in the header Authorization: Bearer TOKEN. In a browser, add ?token= and the"
    " token that the server was started with to the address of this page."
)
"""Where people find the token, which the server does not print."""


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    await app.state.service.start()
    yield
    await app.state.service.stop()


def _add_pages(app: FastAPI, service: Service) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        headers = {"Content-Security-Policy": PAGE_POLICY}
        return HTMLResponse(api_page(app.openapi()), headers=headers)

    describe = app.openapi

    def openapi() -> dict[str, Any]:
        schema = describe()
        components = schema.setdefault("components", {})
        components["securitySchemes"] = {"token": TOKEN_SCHEME}
        schema["security"] = [{"token": []}, {}]
        for path in OPEN_PATHS:
            schema["paths"][path]["get"]["security"] = []
        return schema

    app.openapi = openapi  # type: ignore[method-assign]

    @app.head("/health", include_in_schema=False)
    @app.get("/health", summary="Check that the server is alive", tags=["monitoring"])
    async def health() -> dict[str, str]:
        return {"status": "alive"}

    @app.head("/ready", include_in_schema=False)
    @app.get("/ready", summary="Check that requests are answered", tags=["monitoring"])
    async def ready() -> JSONResponse:
        is_ready = service.ready and not app.state.admission.closing
        status = "ready" if is_ready else "not ready"
        return JSONResponse({"status": status}, 200 if is_ready else 503)

    @app.get("/metrics", summary="Metrics for Prometheus", tags=["monitoring"])
    async def metrics() -> Response:
        text = service.metrics.text()
        return Response(text, media_type=service.metrics.content_type)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(UserError)
    async def refused(request: Request, error: UserError) -> JSONResponse:
        refusal = error if isinstance(error, Refusal) else None
        status, headers = (refusal.status, refusal.headers) if refusal else (422, None)
        if isinstance(error, CannotWrite):  # the request is fine, the server's disk is not
            status = 507
        return JSONResponse({"error": str(error)}, status, headers)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": _sentence(error.errors()[0])}, 422)

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": "an unexpected error; see the server's log"}, 500)


def _sentence(problem: dict[str, Any]) -> str:
    """Describe what is wrong with a field of a request, in the form of all errors."""
    where = excerpt(".".join(str(step) for step in problem["loc"][1:])) or "the body"
    got = _brief(problem.get("input"))
    return (
        f"{where} is invalid: got {got}; allowed: see the description of the route."
        f" {problem['msg']}."
    )


def _brief(value: object) -> str:
    """Return the beginning of a value, which may be very large."""
    cut = value[:60] if isinstance(value, str | bytes | list) else value
    return excerpt(repr(cut), 60)
