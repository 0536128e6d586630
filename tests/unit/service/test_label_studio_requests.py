"""What Label Studio, or somebody else, may send that is not to be learned; and the description."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from helpers.label_studio import PROJECT, TEXTS, annotated, ask, post, send
from helpers.services import Live, running, text_classifier


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with running({"letters": text_classifier()}) as service:
        yield service


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([], "the body is invalid"),
        ({}, "label_config is invalid"),
        ({"label_config": None, "tasks": []}, "label_config is invalid"),
        ({"label_config": "<View>", "tasks": []}, "the labelling interface is not supported"),
        ({"label_config": "<!DOCTYPE x><View/>", "tasks": []}, "one with a document type"),
        ({"label_config": "\ud800", "tasks": []}, "the body is invalid"),
        ({"label_config": TEXTS, "tasks": []}, "this many tasks: got 0"),
        ({"label_config": TEXTS, "tasks": [1]}, "tasks.0 is invalid"),
        ({"label_config": "<View/>", "tasks": []}, "got 0 such; allowed: one <Choices>"),
        ({"label_config": TEXTS}, "tasks is invalid"),
        ({"label_config": TEXTS, "tasks": [{"data": {}}]}, "data.letter is invalid"),
    ],
)
def test_what_is_no_request_is_told(live: Live, content: Any, sentence: str) -> None:  # noqa: ANN401
    status, reply = post(live, "letters/predict", content)
    assert (status, sentence in reply["error"]) == (422, True)


@pytest.mark.parametrize(
    "choice", ['"\\ud800"', '"a\\udc00"', "null", '{"a": 1}', '["A"]', "Infinity", "1"]
)
def test_a_choice_that_is_no_text_is_not_learned(live: Live, choice: str) -> None:
    before = live.client.describe("letters")
    event = json.dumps(annotated(["?"], "abab")).replace('"?"', choice)
    status, reply = send(live, "letters/webhook", event.encode())
    assert (status, "is invalid" in reply["error"]) == (422, True), reply
    assert live.client.describe("letters") == before
    assert live.client.examples("letters")["version"] == before["version"]
    assert live.client.predict("letters", texts=["aaa"])["answers"]


def test_a_choice_with_a_character_that_no_label_can_have_is_not_learned(live: Live) -> None:
    before = live.client.describe("letters")
    status, reply = post(live, "letters/webhook", annotated(["A\0"], "abab"))
    assert (status, "allowed: characters that UTF-8 can encode" in reply["error"]) == (422, True)
    assert live.client.describe("letters") == before


@pytest.mark.parametrize(
    "event",
    [
        {"action": "START_TRAINING", "project": PROJECT, "annotations": [1]},
        {"project": PROJECT, "label_config": 5, "annotations": {}},  # as older versions train
        {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 3}], "task": "?"},
        {"action": ["ANNOTATION_CREATED"]},
        {"action": "TASKS_DELETED", "annotation": {"result": 5}},
    ],
)
def test_other_events_are_ignored_whatever_they_hold(live: Live, event: Any) -> None:  # noqa: ANN401
    assert post(live, "letters/webhook", event) == (201, {"learned": 0})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"project": None}, "project is invalid: got something else; allowed: the project with"),
        ({"project": 1}, "project is invalid"),
        ({"project": {"label_config": 5}}, "project.label_config is invalid: got 5"),
        ({"task": {"data": {}}}, "data.letter is invalid"),
        ({"task": []}, "data.letter is invalid"),
        ({"task": {"data": []}}, "task.0.data is invalid"),
    ],
)
def test_an_annotation_without_its_project_or_task_is_told(
    live: Live, change: dict[str, Any], sentence: str
) -> None:
    status, reply = post(live, "letters/webhook", {**annotated(["A"], "aaa"), **change})
    assert (status, sentence in reply["error"]) == (422, True), reply


def test_parts_of_other_controls_are_ignored(live: Live) -> None:
    event = annotated(["A"], "aaa")
    others: list[Any] = [
        {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right"},
        {"from_name": "note", "value": {"text": ["fine"]}},
        {"from_name": "kind", "value": None},
    ]
    event["annotation"]["result"] = [*others[:2], *event["annotation"]["result"]]
    assert post(live, "letters/webhook", event)[1]["learned"] == 1
    event["annotation"]["result"] = others
    assert post(live, "letters/webhook", event) == (201, {"learned": 0})


def test_label_studios_own_template_with_its_comment_is_supported(live: Live) -> None:
    config = TEXTS + '\n\n<!-- {\n"data": {"letter": "a"}\n}\n-->\n'
    assert post(live, "letters/setup", {"project": PROJECT, "schema": config})[0] == 200
    assert ask(live, "letters", config, "aaa")[0] == 200


def test_bodies_and_replies_are_described(live: Live) -> None:
    with urllib.request.urlopen(f"{live.url}/openapi.json") as reply:
        schema = json.loads(reply.read())
    models, routes = schema["components"]["schemas"], schema["paths"]
    for route, method, good, others in (
        ("health", "get", "200", {"404"}),
        ("versions", "get", "200", {"404"}),
        ("setup", "post", "200", {"404", "408", "413", "503"}),
        ("predict", "post", "200", {"404", "408", "413", "503"}),
        ("webhook", "post", "201", {"404", "408", "413", "503", "507"}),
    ):
        described = routes[f"/label-studio/{{name}}/{route}"][method]
        assert set(described["responses"]) == {good, "400", "401", "403", "422", *others}
        assert "$ref" in described["responses"][good]["content"]["application/json"]["schema"]
        assert ("requestBody" in described) == (method == "post")
    assert set(models["ProjectTasks"]["required"]) == {"label_config", "tasks"}
    assert models["ProjectSetup"]["required"] == ["schema"]
    assert len(models["ProjectEvent"]["properties"]["annotation"]["anyOf"]) == 3
    assert "400" in routes["/v1/classifiers/{name}/predict"]["post"]["responses"]
