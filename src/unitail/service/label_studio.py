"""A machine learning backend for Label Studio: suggests labels and learns from annotations.

In Label Studio add the model `http://HOST:PORT/label-studio/NAME`; a token is given as the password
of basic authentication. Label Studio sends tasks to `/predict` and annotations to `/webhook`, which
become examples at once; a correction replaces the example. The labelling interface must have one
`<Choices>` for one `<Text>`, or for one `<Image>` whose tasks hold `data:` URLs: this server
fetches nothing that a request names.
"""

import base64
import binascii
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from numpy.typing import NDArray

from unitail.errors import UserError
from unitail.service import messages
from unitail.service.classifiers import Version
from unitail.service.labelling_interface import Interface
from unitail.service.labels import label_of
from unitail.service.messages import CORRECTED
from unitail.service.questions import AnswerOptions
from unitail.service.routes import REFUSALS, JsonRoute, Name
from unitail.service.service import Service
from unitail.web.replies import Refusal
from unitail.wording import excerpt

COMMON: dict[int | str, Any] = {status: REFUSALS[status] for status in (400, 401, 403, 404, 422)}
"""Refusals of all routes."""
OF_BODIES: dict[int | str, Any] = {status: REFUSALS[status] for status in (408, 413, 503)}
"""Further refusals of routes that take a body."""
router = APIRouter(
    prefix="/label-studio/{name}", tags=["Label Studio"], responses=COMMON, route_class=JsonRoute
)


@router.get("/health", summary="Check that the model is there", response_model=messages.ModelHealth)
async def health(request: Request, name: Name) -> JSONResponse:
    """Report that the backend is alive."""
    _service(request).classifiers.find(name)
    return JSONResponse({"status": "UP", "model_class": "unitail"})


@router.post(
    "/setup",
    summary="Check a project",
    response_model=messages.ModelVersion,
    responses=OF_BODIES,
)
async def setup(request: Request, name: Name, project: messages.ProjectSetup) -> JSONResponse:
    """Check the labelling interface when the model is added."""
    version = _service(request).classifiers.find(name).newest
    Interface.of(project.interface).check(version)
    return JSONResponse({"model_version": _version_name(version)})


@router.get("/versions", summary="Name the version", response_model=messages.ModelVersions)
async def versions(request: Request, name: Name) -> JSONResponse:
    """Name the version that answers; Label Studio warns users of backends without this route."""
    newest = _service(request).classifiers.find(name).newest
    return JSONResponse({"versions": [_version_name(newest)]})


@router.post(
    "/predict", summary="Suggest labels", response_model=messages.Suggestions, responses=OF_BODIES
)
async def predict(request: Request, name: Name, asked: messages.ProjectTasks) -> JSONResponse:
    """Suggest a label for each task; a task that cannot be read gets none."""
    service = _service(request)
    version = service.classifiers.find(name).newest
    interface = Interface.of(asked.label_config)
    service.check_count(len(asked.tasks), "tasks")
    async with service.in_time():
        rows = [await _row_or_refusal(service, version, interface, task) for task in asked.tasks]
        read = [row for row in rows if not isinstance(row, UserError)]
        if not read:
            raise next(row for row in rows if isinstance(row, UserError))
        options = AnswerOptions(probabilities=False, coverage=None)
        answers = iter(await service.predict(version, np.concatenate(read), options))
    label = _version_name(version)
    results = [
        _nothing(label)
        if isinstance(row, UserError)
        else _suggestion(interface, next(answers), label)
        for row in rows
    ]
    return JSONResponse({"results": results, "model_version": label})


@router.post(
    "/webhook",
    summary="Learn from annotations",
    response_model=messages.Learned,
    status_code=201,
    responses={**OF_BODIES, 507: REFUSALS[507]},
)
async def webhook(request: Request, name: Name, event: messages.ProjectEvent) -> JSONResponse:
    """Learn from annotations: from new ones, and from corrections."""
    service = _service(request)
    served = service.classifiers.find(name)
    if event.action is None:
        return JSONResponse({"learned": 0}, 201)
    if event.project is None:
        raise _malformed("project", "the project with its label_config, which a webhook may send")
    interface = Interface.of(event.project.label_config)
    labelled = _labelled(interface, event)
    if not labelled:
        return JSONResponse({"learned": 0}, 201)
    service.check_count(len(labelled), "annotations")
    classes = served.newest.classifier.classes_
    labels = [label_of(classes, choice) for _, choice in labelled]
    async with service.in_time() as deadline:
        rows = [await _row(service, served.newest, interface, task) for task, _ in labelled]
        vectors = np.concatenate(rows)
        if event.action == CORRECTED:
            version, replaced = await service.correct(served, vectors, labels, deadline)
        else:
            version, replaced = await service.add(served, vectors, labels, deadline), None
    reply: dict[str, Any] = {"learned": len(labelled), "model_version": _version_name(version)}
    return JSONResponse(reply if replaced is None else {**reply, "replaced": replaced}, 201)


async def _row(
    service: Service, version: Version, interface: Interface, task: messages.ProjectTask | None
) -> NDArray[Any]:
    value = _value(interface, task)
    if version.takes == "text":
        return await service.vectors.texts(version, [value])
    return await service.vectors.files(version, [_bytes_of(value)])


async def _row_or_refusal(
    service: Service, version: Version, interface: Interface, task: messages.ProjectTask
) -> NDArray[Any] | UserError:
    try:
        return await _row(service, version, interface, task)
    except UserError as error:
        return error


def _labelled(
    interface: Interface, event: messages.ProjectEvent
) -> list[tuple[messages.ProjectTask | None, str]]:
    """Return the tasks with one choice, and the choice; others are skipped or have several.

    An event has one annotation and its task, or lists of them.
    """
    tasks, by_id = event.task, {task.id: task for task in event.task if task.id is not None}
    labelled = []
    for place, annotation in enumerate(event.annotation):
        choices = _choices(interface, annotation)
        in_turn = tasks[place] if place < len(tasks) else None
        task = in_turn if annotation.task is None else by_id.get(annotation.task, in_turn)
        if len(choices) == 1:
            labelled.append((task, choices[0]))
    return labelled


def _value(interface: Interface, task: messages.ProjectTask | None) -> str:
    value = None if task is None or task.data is None else task.data.get(interface.key)
    if not isinstance(value, str):
        raise _malformed(f"data.{excerpt(interface.key)}", "a text in every task")
    return value


def _bytes_of(value: str) -> bytes:
    head, comma, content = value.partition(",")
    if not (value.startswith("data:") and comma and head.endswith(";base64")):
        raise Refusal(
            422,
            "a task names a file elsewhere",
            got=repr(value[:40]),
            allowed="data:image/png;base64,...",
            remedy="Import the files as data URLs; this server fetches nothing.",
        )
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error as error:
        raise _malformed("a data URL", "base64") from error


def _suggestion(interface: Interface, answer: dict[str, Any], version: str) -> dict[str, Any]:
    choice = {
        "from_name": interface.from_name,
        "to_name": interface.to_name,
        "type": "choices",
        "value": {"choices": [interface.choice_of(answer["label"])]},
        "score": answer["probability"],
    }
    return {"result": [choice], "score": answer["probability"], "model_version": version}


def _nothing(version: str) -> dict[str, Any]:
    """Return the reply for a task that cannot be read."""
    return {"result": [], "score": 0.0, "model_version": version}


def _choices(interface: Interface, annotation: messages.Annotation) -> list[str]:
    """Return the choices of an annotation; none if it was skipped."""
    for region in annotation.result or ():
        if region.from_name == interface.from_name:
            return (region.value and region.value.choices) or []
    return []


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _version_name(version: Version) -> str:
    return f"{version.name}-{version.number}"


def _malformed(what: str, allowed: str) -> Refusal:
    return Refusal(422, f"{what} is invalid", got="something else", allowed=allowed)
