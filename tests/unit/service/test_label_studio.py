"""Against the contract of Label Studio's model backends, as label-studio-ml 1.0.9 has it.

The package itself pins old versions of Flask and Jinja2, which the documentation's tools exclude,
so it is not installed: requests and replies are those of its `api.py` and of Label Studio's hooks.
"""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from helpers.services import Live, colour_classifier, picture, running, text_classifier

TEXTS = """<View><Text name="text" value="$letter"/>
<Choices name="kind" toName="text"><Choice value="A"/><Choice value="B"/></Choices></View>"""
IMAGES = TEXTS.replace("Text", "Image").replace("$letter", "$image")
PROJECT = "7.1700000000"


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with running({"letters": text_classifier(), "colours": colour_classifier()}) as service:
        yield service


def post(live: Live, path: str, content: Any) -> tuple[int, Any]:  # noqa: ANN401
    request = urllib.request.Request(
        f"{live.url}/label-studio/{path}",
        json.dumps(content).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def ask(live: Live, name: str, config: str, *values: str) -> tuple[int, Any]:
    key = "letter" if "letter" in config else "image"
    tasks = [{"id": place, "data": {key: value}} for place, value in enumerate(values)]
    content = {
        "tasks": tasks,
        "model_version": None,
        "project": PROJECT,
        "label_config": config,
        "params": {"login": None, "password": None, "context": None},
    }
    return post(live, f"{name}/predict", content)


def annotated(choices: list[str], text: str) -> dict[str, Any]:
    chosen = {
        "from_name": "kind",
        "to_name": "text",
        "type": "choices",
        "value": {"choices": choices},
    }
    return {
        "action": "ANNOTATION_CREATED",
        "project": {"id": 7, "label_config": TEXTS},
        "task": {"id": 1, "data": {"letter": text}},
        "annotation": {"id": 3, "result": [chosen] if choices else []},
    }


def test_it_is_found_and_set_up(live: Live) -> None:
    with urllib.request.urlopen(f"{live.url}/label-studio/letters/health") as reply:
        assert json.loads(reply.read())["status"] == "UP"
    setup = {"project": PROJECT, "schema": TEXTS, "hostname": "http://ls", "access_token": "t"}
    status, reply = post(live, "letters/setup", setup)
    assert status == 200
    assert reply["model_version"].startswith("letters-")
    with urllib.request.urlopen(f"{live.url}/label-studio/letters/versions") as told:
        assert json.loads(told.read()) == {"versions": [reply["model_version"]]}


def test_tasks_get_suggestions(live: Live) -> None:
    status, reply = ask(live, "letters", TEXTS, "aaaa", "bbb")
    assert status == 200
    first, second = reply["results"]
    [region] = first["result"]
    assert region == {
        "from_name": "kind",
        "to_name": "text",
        "type": "choices",
        "value": {"choices": ["A"]},
        "score": first["score"],
    }
    assert 0.5 < first["score"] <= 1
    assert second["result"][0]["value"]["choices"] == ["B"]
    assert first["model_version"] == reply["model_version"]


def test_images_come_as_data_and_nothing_is_fetched(live: Live) -> None:
    data = base64.b64encode(picture((240, 0, 0))).decode()
    status, reply = ask(live, "colours", IMAGES, f"data:image/png;base64,{data}")
    assert (status, reply["results"][0]["result"][0]["value"]["choices"]) == (200, ["red"])
    for address in ("http://169.254.169.254/", "/data/upload/1.png", "file:///etc/passwd"):
        status, reply = ask(live, "colours", IMAGES, address)
        assert (status, "names a file elsewhere" in reply["error"]) == (422, True)


def test_annotations_are_learned_from_at_once(live: Live) -> None:
    before = live.client.describe("letters")["version"]
    status, reply = post(live, "letters/webhook", annotated(["both"], "abababab"))
    assert (status, reply) == (201, {"learned": 1, "model_version": f"letters-{before + 1}"})
    assert ask(live, "letters", TEXTS, "abababab")[1]["results"][0]["result"][0]["value"] == {
        "choices": ["both"]
    }
    for event in (
        annotated([], "skipped"),
        annotated(["A", "B"], "two at once"),
        {"action": "PROJECT_UPDATED"},
    ):
        assert post(live, "letters/webhook", event) == (201, {"learned": 0})
    assert live.client.describe("letters")["version"] == before + 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([], "the body is invalid"),
        ({"label_config": "<View>"}, "the labelling interface is not supported"),
        ({"label_config": "<!DOCTYPE x [<!ENTITY a 'b'>]><View/>"}, "one with declarations"),
        ({"label_config": "<View/>", "tasks": []}, "got 0 such; allowed: one <Choices>"),
        ({"label_config": TEXTS}, "tasks is invalid"),
        ({"label_config": TEXTS, "tasks": [{"data": {}}]}, "data.letter is invalid"),
    ],
)
def test_what_is_no_request_is_told(live: Live, content: Any, sentence: str) -> None:  # noqa: ANN401
    status, reply = post(live, "letters/predict", content)
    assert (status, sentence in reply["error"]) == (422, True)
