"""A machine learning backend for Label Studio: suggests labels and learns from annotations.

In Label Studio add the model `http://HOST:PORT/label-studio/NAME`; a token is given as the password
of basic authentication. Label Studio sends tasks to `/predict` and annotations to `/webhook`, which
become examples at once; a correction replaces the example. The labelling interface must have one
`<Choices>` for one `<Text>`, or for one `<Image>` whose tasks hold `data:` URLs: this server
fetches nothing that a request names.
"""

import base64
import binascii
import json
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from numpy.typing import NDArray

from unitail.errors import UserError
from unitail.service.classifiers import Version
from unitail.service.labels import label_of, names_of, some_classes
from unitail.service.questions import AnswerOptions
from unitail.service.service import Service
from unitail.web.replies import Refusal

router = APIRouter(prefix="/label-studio/{name}", tags=["Label Studio"])
CREATED = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED")
"""Events that add examples."""
CORRECTED = "ANNOTATION_UPDATED"
"""The event that replaces an example."""
MAX_CONFIG = 100_000
"""Longest labelling interface, in characters."""
ITEMS = {"Text": "text", "Image": "image"}
"""What the classifier of a project must take, by the tag of the objects to label."""


@dataclass(frozen=True)
class Interface:
    """The names in a labelling interface."""

    from_name: str
    to_name: str
    key: str
    """Key of the item in a task's data."""
    takes: str
    """What the classifier must take."""
    choices: tuple[str, ...]
    """The choices as far as the interface lists them."""

    @classmethod
    def of(cls, config: object) -> "Interface":
        """Read the `<Choices>` of an interface, and the object they refer to."""
        root = _parse(config)
        objects = {
            each.get("name"): ((each.get("value") or "").lstrip("$"), takes)
            for tag, takes in ITEMS.items()
            for each in root.iter(tag)
        }
        choices = [each for each in root.iter("Choices") if each.get("toName") in objects]
        if len(choices) != 1:
            raise _wrong_interface(f"{len(choices)} such")
        from_name, to_name = choices[0].get("name") or "", choices[0].get("toName") or ""
        listed = (each.get("alias") or each.get("value") for each in choices[0].iter("Choice"))
        return cls(from_name, to_name, *objects[to_name], tuple(name for name in listed if name))

    def choice_of(self, label: object) -> str:
        """Return the choice that stands for a class: a listed one if any is a name of it."""
        names = names_of(label)
        return next((name for name in names if name in self.choices), names[0])

    def check(self, version: Version) -> None:
        """Refuse a classifier that cannot answer, or whose answers are none of the choices."""
        if version.takes != self.takes:
            raise _wrong_interface(
                f"objects of kind {self.takes} for a classifier of {version.takes}"
            )
        classes = version.classifier.classes_.tolist()
        if self.choices and not any(self.choice_of(label) in self.choices for label in classes):
            raise Refusal(
                422,
                "no class of the classifier is one of the choices",
                got=some_classes(self.choices),
                allowed=some_classes(classes),
                remedy="Add these as <Choice value=...>, or serve another classifier.",
            )


@router.get("/health")
async def health(request: Request, name: str) -> dict[str, str]:
    """Report that the backend is alive."""
    _service(request).classifiers.find(name)
    return {"status": "UP", "model_class": "unitail"}


@router.post("/setup")
async def setup(request: Request, name: str) -> dict[str, str]:
    """Check the labelling interface when the model is added."""
    content = await _content(request)
    version = _service(request).classifiers.find(name).newest
    Interface.of(content.get("schema")).check(version)
    return {"model_version": _version_name(version)}


@router.get("/versions")
async def versions(request: Request, name: str) -> dict[str, list[str]]:
    """Name the version that answers; Label Studio warns users of backends without this route."""
    return {"versions": [_version_name(_service(request).classifiers.find(name).newest)]}


@router.post("/predict")
async def predict(request: Request, name: str) -> dict[str, Any]:
    """Suggest a label for each task; a task that cannot be read gets none."""
    service, content = _service(request), await _content(request)
    version = service.classifiers.find(name).newest
    interface = Interface.of(content.get("label_config"))
    tasks = content.get("tasks")
    if not isinstance(tasks, list):
        raise _malformed("tasks", "a list of tasks")
    service.check_count(len(tasks), "tasks")
    async with service.in_time():
        rows = [await _row_or_refusal(service, version, interface, task) for task in tasks]
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
    return {"results": results, "model_version": label}


@router.post("/webhook")
async def webhook(request: Request, name: str) -> JSONResponse:
    """Learn from annotations: from new ones, and from corrections."""
    service, content = _service(request), await _content(request)
    served, action = service.classifiers.find(name), content.get("action")
    if action not in (*CREATED, CORRECTED):
        return JSONResponse({"learned": 0}, 201)
    project = content.get("project")
    interface = Interface.of(project.get("label_config") if isinstance(project, dict) else None)
    labelled = _labelled(interface, content)
    if not labelled:
        return JSONResponse({"learned": 0}, 201)
    service.check_count(len(labelled), "annotations")
    classes = served.newest.classifier.classes_
    labels = [label_of(classes, choice) for _, choice in labelled]
    async with service.in_time() as deadline:
        rows = [await _row(service, served.newest, interface, task) for task, _ in labelled]
        vectors = np.concatenate(rows)
        if action == CORRECTED:
            version, replaced = await service.correct(served, vectors, labels, deadline)
        else:
            version, replaced = await service.add(served, vectors, labels, deadline), None
    reply: dict[str, Any] = {"learned": len(labelled), "model_version": _version_name(version)}
    return JSONResponse(reply if replaced is None else {**reply, "replaced": replaced}, 201)


async def _row(service: Service, version: Version, interface: Interface, task: Any) -> NDArray[Any]:  # noqa: ANN401
    value = _value(interface, task)
    if version.takes == "text":
        return await service.vectors.texts(version, [value])
    return await service.vectors.files(version, [_bytes_of(value)])


async def _row_or_refusal(
    service: Service,
    version: Version,
    interface: Interface,
    task: Any,  # noqa: ANN401 - JSON
) -> NDArray[Any] | UserError:
    try:
        return await _row(service, version, interface, task)
    except UserError as error:
        return error


def _labelled(interface: Interface, content: dict[str, Any]) -> list[tuple[Any, str]]:
    """Return the tasks with one choice, and the choice; others are skipped or have several.

    An event has one annotation and its task, or lists of them.
    """
    annotations, tasks = content.get("annotation"), content.get("task")
    annotations = annotations if isinstance(annotations, list) else [annotations]
    tasks = tasks if isinstance(tasks, list) else [tasks] * len(annotations)
    by_id = {each["id"]: each for each in tasks if isinstance(each, dict) and _is_id(each)}
    labelled = []
    for place, annotation in enumerate(annotations):
        choices = _choices(interface, annotation)
        own = annotation.get("task") if isinstance(annotation, dict) else None
        task = by_id.get(own) if isinstance(own, int) else None
        if task is None:
            task = tasks[place] if place < len(tasks) else None
        if len(choices) == 1:
            labelled.append((task, choices[0]))
    return labelled


def _is_id(task: dict[str, Any]) -> bool:
    return isinstance(task.get("id"), int)


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
        "value": {"choices": [interface.choice_of(answer["label"])]},
        "score": answer["probability"],
    }
    return {"result": [choice], "score": answer["probability"], "model_version": version}


def _nothing(version: str) -> dict[str, Any]:
    """Return the reply for a task that cannot be read."""
    return {"result": [], "score": 0.0, "model_version": version}


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
