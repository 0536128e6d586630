"""A machine learning backend for Label Studio: suggests labels and learns from annotations.

In Label Studio add the model `http://HOST:PORT/label-studio/NAME`; a token is given as the password
of basic authentication. Label Studio sends tasks to `/predict` and annotations to `/webhook`, which
become examples at once. The labelling interface must have one `<Choices>` for one `<Text>`, or for
one `<Image>` whose tasks hold `data:` URLs: this server fetches nothing that a request names.
"""

import base64
import binascii
import json
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from numpy.typing import NDArray

from unitail.service.classifiers import Version
from unitail.service.questions import AnswerOptions
from unitail.service.service import Service
from unitail.web.replies import Refusal

router = APIRouter(prefix="/label-studio/{name}", tags=["Label Studio"])
LEARNED_FROM = ("ANNOTATION_CREATED",)
"""Events that add an example; later changes of an annotation are ignored."""
MAX_CONFIG = 100_000
"""Longest labelling interface, in characters."""
ITEMS = {"Text": "text", "Image": "image"}


@dataclass(frozen=True)
class Interface:
    """The names in a labelling interface."""

    from_name: str
    to_name: str
    key: str
    """Key of the item in a task's data."""

    @classmethod
    def of(cls, config: object) -> "Interface":
        """Read the `<Choices>` of an interface, and the object they refer to."""
        root = _parse(config)
        objects = {
            each.get("name"): (each.get("value") or "").lstrip("$")
            for tag in ITEMS
            for each in root.iter(tag)
        }
        choices = [each for each in root.iter("Choices") if each.get("toName") in objects]
        if len(choices) != 1:
            raise _wrong_interface(f"{len(choices)} such")
        from_name, to_name = choices[0].get("name") or "", choices[0].get("toName") or ""
        return cls(from_name, to_name, objects[to_name])


@router.get("/health")
async def health(request: Request, name: str) -> dict[str, str]:
    """Report that the backend is alive."""
    _service(request).classifiers.find(name)
    return {"status": "UP", "model_class": "unitail"}


@router.post("/setup")
async def setup(request: Request, name: str) -> dict[str, str]:
    """Check the labelling interface when the model is added."""
    content = await _content(request)
    Interface.of(content.get("schema"))
    return {"model_version": _version_name(_service(request).classifiers.find(name).newest)}


@router.get("/versions")
async def versions(request: Request, name: str) -> dict[str, list[str]]:
    """Name the version that answers; Label Studio warns users of backends without this route."""
    return {"versions": [_version_name(_service(request).classifiers.find(name).newest)]}


@router.post("/predict")
async def predict(request: Request, name: str) -> dict[str, Any]:
    """Suggest a label for each task."""
    service, content = _service(request), await _content(request)
    version = service.classifiers.find(name).newest
    interface = Interface.of(content.get("label_config"))
    tasks = content.get("tasks")
    if not isinstance(tasks, list):
        raise _malformed("tasks", "a list of tasks")
    service.check_count(len(tasks), "tasks")
    async with service.in_time():
        rows = await _rows(service, version, interface, tasks)
        answers = await service.predict(
            version, rows, AnswerOptions(probabilities=False, coverage=None)
        )
    label = _version_name(version)
    return {
        "results": [_suggestion(interface, answer, label) for answer in answers],
        "model_version": label,
    }


@router.post("/webhook")
async def webhook(request: Request, name: str) -> JSONResponse:
    """Learn from an annotation."""
    service, content = _service(request), await _content(request)
    served = service.classifiers.find(name)
    if content.get("action") not in LEARNED_FROM:
        return JSONResponse({"learned": 0}, 201)
    project, annotation = content.get("project"), content.get("annotation")
    config = project.get("label_config") if isinstance(project, dict) else None
    interface = Interface.of(config)
    choices = _choices(interface, annotation)
    if len(choices) != 1:  # skipped, or several choices
        return JSONResponse({"learned": 0}, 201)
    async with service.in_time() as deadline:
        rows = await _rows(service, served.newest, interface, [content.get("task")])
        version = await service.add(served, rows, choices, deadline)
    return JSONResponse({"learned": 1, "model_version": _version_name(version)}, 201)


async def _rows(
    service: Service, version: Version, interface: Interface, tasks: list[Any]
) -> NDArray[Any]:
    values = [_value(interface, task) for task in tasks]
    if version.takes == "text":
        return await service.vectors.texts(version, values)
    return await service.vectors.files(version, [_bytes_of(value) for value in values])


def _value(interface: Interface, task: Any) -> str:  # noqa: ANN401 - JSON
    data = task.get("data") if isinstance(task, dict) else None
    value = data.get(interface.key) if isinstance(data, dict) else None
    if not isinstance(value, str):
        raise _malformed(f"data.{interface.key}", "a text in every task")
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
        "value": {"choices": [str(answer["label"])]},
        "score": answer["probability"],
    }
    return {"result": [choice], "score": answer["probability"], "model_version": version}


def _choices(interface: Interface, annotation: Any) -> list[str]:  # noqa: ANN401 - JSON
    """Return the choices of an annotation; none if it was skipped."""
    results = annotation.get("result") if isinstance(annotation, dict) else None
    for each in results if isinstance(results, list) else ():
        if isinstance(each, dict) and each.get("from_name") == interface.from_name:
            value = each.get("value")
            choices = value.get("choices") if isinstance(value, dict) else None
            return [str(choice) for choice in choices] if isinstance(choices, list) else []
    return []


def _parse(config: object) -> ElementTree.Element:
    """Parse an interface; refuse declarations, whose entities could expand without limit."""
    if not isinstance(config, str) or len(config) > MAX_CONFIG or "<!" in config:
        raise _wrong_interface("none, or one with declarations")
    try:
        return ElementTree.fromstring(config)
    except ElementTree.ParseError as error:
        raise _wrong_interface(str(error)) from error


async def _content(request: Request) -> dict[str, Any]:
    try:
        content = await _service(request).parse(json.loads, await request.body())
    except (ValueError, RecursionError) as error:
        raise _malformed("the body", "JSON") from error
    if not isinstance(content, dict):
        raise _malformed("the body", "a JSON object")
    return content


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _version_name(version: Version) -> str:
    return f"{version.name}-{version.number}"


def _malformed(what: str, allowed: str) -> Refusal:
    return Refusal(422, f"{what} is invalid", got="something else", allowed=allowed)


def _wrong_interface(got: str) -> Refusal:
    return Refusal(
        422,
        "the labelling interface is not supported",
        got=got,
        allowed="one <Choices> for one <Text> or <Image>",
        remedy="Change the labelling interface.",
    )
