"""The HTTP routes of the service.

JSON is parsed and validated in a thread, so that it does not block the event loop.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, File, Form, Path, Query, Request, Response, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException

from unitail.answer_defaults import COVERAGE
from unitail.service import messages
from unitail.service.classifiers import Version
from unitail.service.labels import label_of, places_of
from unitail.service.limits import MAX_LABEL
from unitail.service.questions import AnswerOptions
from unitail.service.service import Service, too_many
from unitail.web.replies import JsonReply, Refusal

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": messages.Problem, "description": text}
    for status, text in {
        400: "The head of the request is wrong: its host, or the length of its body.",
        401: "The server needs its token, in the header `Authorization: Bearer TOKEN`.",
        403: "The host or origin is not allowed, or the service is read-only.",
        404: "There is no such classifier, or class.",
        408: "The body took too long to arrive.",
        409: "There is no such version.",
        413: "The request is too large.",
        422: "The request is invalid.",
        503: "The service is overloaded; try again after `Retry-After` seconds.",
        507: "The change could not be saved, and was not made.",
    }.items()
}
FEW_NUMBERS = 1000
"""Amount of numbers up to which writing JSON is faster than passing it to a thread."""
Name = Annotated[str, Path(max_length=64, description="The name of a classifier.")]
Coverage = Annotated[
    Annotated[float, Field(gt=0, lt=1)] | None,
    BeforeValidator(lambda value: None if value == "" else value),
    Query(
        description="How often prediction sets should contain the true label; empty for no sets."
    ),
]
FormLabel = Annotated[str, Field(max_length=MAX_LABEL)]
Files = Annotated[list[UploadFile], File(description="Images, sounds or texts, one item per file.")]


class _Parsed(Request):
    """A request whose body has been parsed."""

    message: BaseModel

    async def json(self) -> Any:  # noqa: ANN401 - as starlette has it
        """Return the parsed message, which FastAPI uses without validating it again."""
        return self.message


class _Uploads(Request):
    """A request whose form may hold as many files as the service allows."""

    async def form(self, **_: Any) -> FormData:  # type: ignore[override] # noqa: ANN401
        """Return the form; refuse one with too many files, or labels."""
        limit = self.app.state.service.limits.items
        try:
            return await super().form(max_files=limit, max_fields=limit)
        except HTTPException as error:
            if not error.detail.startswith("Too many"):
                raise
            refusal = too_many("files", f"more than {limit:,}", limit)
            raise HTTPException(refusal.status, str(refusal)) from error


class JsonRoute(APIRoute):
    """A FastAPI route that takes one JSON message, or none, and parses it in a thread.

    FastAPI itself would parse it in the event loop, where a large message blocks all other
    requests.
    """

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """Return a handler that parses the message, then calls FastAPI's own."""
        handler = super().get_route_handler()
        kind = None if self.body_field is None else self.body_field.field_info.annotation
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return handler

        async def handle(request: Request) -> Response:
            if not _is_json(request):  # a form; FastAPI refuses anything else
                return await handler(_Uploads(request.scope, request.receive))
            body = await request.body()
            service = request.app.state.service
            parsed = _Parsed(request.scope, request.receive)
            parsed._body = body
            async with service.in_time():
                parsed.message = await service.parse(_parse_message, kind, body)
            return await handler(parsed)

        return handle


def _is_json(request: Request) -> bool:
    """Return whether FastAPI would parse the body as JSON: `application/json` or one of its kin."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    main, _, sub = kind.partition("/")
    return main == "application" and (sub == "json" or sub.endswith("+json"))


def _parse_message(kind: type[BaseModel], body: bytes) -> BaseModel:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        located = [{**each, "loc": ("body", *each["loc"])} for each in problems]
        raise RequestValidationError(located) from error


router = APIRouter(prefix="/v1/classifiers", responses=REFUSALS, route_class=JsonRoute)


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


@router.get("", summary="List the classifiers", response_model=list[messages.Classifier])
async def list_classifiers(request: Request) -> JSONResponse:
    """Describe the newest version of every classifier."""
    return JSONResponse([each.newest.describe() for each in _service(request).classifiers])


@router.get("/{name}", summary="Describe a classifier", response_model=messages.Classifier)
async def describe(request: Request, name: Name, version: int | None = None) -> JSONResponse:
    """Describe a version of a classifier, and list the versions that are kept."""
    served = _service(request).classifiers.find(name)
    kept = [each.number for each in served.versions]
    return JSONResponse({**served.version(version).describe(), "versions": kept})


@router.post("/{name}/predict", summary="Classify items", response_model=messages.Answers)
async def predict(request: Request, name: Name, question: messages.Question) -> Response:
    """Classify one or more vectors, texts or table rows."""
    service = _service(request)
    version = service.classifiers.find(name).version(question.version)
    options = AnswerOptions(
        probabilities=question.probabilities,
        coverage=question.coverage,
        novelty=question.novelty,
        influence=question.influence,
    )
    async with service.in_time():
        rows = await _rows(service, version, question)
        return await _answers(service, version, await service.predict(version, rows, options))


@router.post("/{name}/predict/files", summary="Classify files", response_model=messages.Answers)
async def predict_files(
    request: Request,
    name: Name,
    files: Files,
    version: int | None = None,
    probabilities: bool = True,
    coverage: Coverage = COVERAGE,
    novelty: bool = True,
    influence: Annotated[int, Query(ge=0, le=messages.MAX_INFLUENCE)] = 0,
) -> Response:
    """Classify one or more uploaded images, sounds or texts."""
    service = _service(request)
    chosen = service.classifiers.find(name).version(version)
    options = AnswerOptions(
        probabilities=probabilities, coverage=coverage, novelty=novelty, influence=influence
    )
    async with service.in_time():
        rows = await _file_rows(service, chosen, files)
        return await _answers(service, chosen, await service.predict(chosen, rows, options))


@router.get("/{name}/examples", summary="List examples", response_model=messages.Examples)
async def list_examples(request: Request, name: Name) -> Response:
    """List the labels of all examples; the examples themselves are not stored."""
    service = _service(request)
    version = service.classifiers.find(name).newest

    def write() -> JsonReply:
        return JsonReply({"version": version.number, "labels": version.labels.tolist()})

    return await service.parse(write)


@router.post("/{name}/examples", summary="Add examples", response_model=messages.Classifier)
async def add_examples(
    request: Request, name: Name, examples: messages.NewExamples
) -> JSONResponse:
    """Add labelled vectors, texts or table rows; a new label creates a class."""
    service = _service(request)
    served = service.classifiers.find(name)
    async with service.in_time() as deadline:
        rows = await _rows(service, served.newest, examples)
        version = await service.add(served, rows, examples.labels, deadline)
    return JSONResponse(version.describe())


@router.post("/{name}/examples/files", summary="Add files", response_model=messages.Classifier)
async def add_files(
    request: Request,
    name: Name,
    files: Files,
    labels: Annotated[list[FormLabel], Form(description="The class of each file.")],
) -> JSONResponse:
    """Add uploaded examples; a new label creates a class."""
    service = _service(request)
    served = service.classifiers.find(name)
    async with service.in_time() as deadline:
        rows = await _file_rows(service, served.newest, files)
        classes = served.newest.classifier.classes_
        meant = [label_of(classes, label) for label in labels]
        version = await service.add(served, rows, meant, deadline)
    return JSONResponse(version.describe())


@router.post(
    "/{name}/examples/remove", summary="Remove examples", response_model=messages.Classifier
)
async def remove_examples(
    request: Request, name: Name, forgotten: messages.Forgotten
) -> JSONResponse:
    """Remove examples by their places; the classifier is then as if fitted on the others."""
    service = _service(request)
    places = np.array(forgotten.places, dtype=np.int64)
    served = service.classifiers.find(name)
    async with service.in_time() as deadline:
        version = await service.remove(served, forgotten.version, lambda _: places, deadline)
    return JSONResponse(version.describe())


@router.delete(
    "/{name}/classes/{label:path}", summary="Remove a class", response_model=messages.Classifier
)
async def remove_class(request: Request, name: Name, label: str) -> JSONResponse:
    """Remove all examples of a class."""
    service = _service(request)
    served = service.classifiers.find(name)

    def choose(version: Version) -> NDArray[np.int64]:
        return places_of(version.classifier.classes_, version.labels, label)

    async with service.in_time() as deadline:
        version = await service.remove(served, served.newest.number, choose, deadline)
    return JSONResponse(version.describe())


async def _rows(service: Service, version: Version, content: messages.Content) -> NDArray[Any]:
    """Return the vectors of a request's items."""
    items = {"vectors": content.vectors, "texts": content.texts, "rows": content.rows}
    kinds = [kind for kind, values in items.items() if values is not None]
    if len(kinds) != 1:
        raise Refusal(
            422,
            "a request takes items of one kind",
            got=" and ".join(kinds) or "none",
            allowed="one of vectors, texts and rows",
        )
    [kind] = kinds
    service.check_count(len(items[kind] or ()), kind)
    if content.vectors is not None:
        return await service.parse(service.vectors.numbers, content.vectors)
    if content.texts is not None:
        return await service.vectors.texts(version, content.texts)
    return await service.vectors.table(version, content.rows or [])


async def _file_rows(
    service: Service, version: Version, files: Sequence[UploadFile]
) -> NDArray[Any]:
    service.check_count(len(files), "files")
    contents = [await file.read() for file in files]
    return await service.vectors.files(version, contents)


async def _answers(service: Service, version: Version, answers: list[dict[str, Any]]) -> JsonReply:
    """Write answers as JSON: a few at once, many in a thread, so that other requests can go on."""
    content = {
        "classifier": version.name,
        "version": version.number,
        "classes": version.classifier.classes_.tolist(),
        "answers": answers,
    }
    deciding = sum(len(answer.get("influence", ())) for answer in answers)
    if len(answers) * len(content["classes"]) + 4 * deciding <= FEW_NUMBERS:
        return JsonReply(content)
    return await service.parse(JsonReply, content)
