"""Routes whose JSON is parsed and checked in a thread, away from where all requests wait."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

JSON = "application/json"


class _Parsed(Request):
    """A request whose body has been parsed."""

    message: BaseModel

    async def json(self) -> Any:  # noqa: ANN401 - as starlette has it
        """Return what was parsed: FastAPI takes it as it is."""
        return self.message


class JsonRoute(APIRoute):
    """A route of FastAPI with one message in JSON, or none.

    FastAPI would parse and check it where all requests wait: for a large one, nothing else is
    answered meanwhile.
    """

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """Parse, then do what FastAPI does."""
        handler = super().get_route_handler()
        kind = None if self.body_field is None else self.body_field.field_info.annotation
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return handler

        async def handle(request: Request) -> Response:
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
                return await handler(request)  # which refuses it, unless it is JSON of a kind
            body = await request.body()
            service = request.app.state.service
            parsed = _Parsed(request.scope, request.receive)
            parsed._body = body
            async with service.in_time():
                parsed.message = await service.parse(_message, kind, body)
            return await handler(parsed)

        return handle


def _message(kind: type[BaseModel], body: bytes) -> BaseModel:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        told = [{**each, "loc": ("body", *each["loc"])} for each in problems]
        raise RequestValidationError(told) from error
