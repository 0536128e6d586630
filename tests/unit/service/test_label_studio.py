"""Against the contract of Label Studio's model backends, as label-studio-ml 1.0.9 has it.

The package itself pins old versions of Flask and Jinja2, which the documentation's tools exclude,
so it is not installed: requests and replies are those of its `api.py` and of Label Studio's hooks.
`label-studio-sdk` validates our suggestions as Label Studio does. `make` installs it without its
version of OpenCV, which keeps numpy below 2.3, so that all other tests would run with an older one.
"""

import base64
import json
import urllib.request
from collections.abc import Iterator

import pytest
from sklearn.base import clone

from helpers.label_studio import IMAGES, PROJECT, TEXTS, annotated, ask, post
from helpers.letters import Letters
from helpers.services import MODEL, Live, colour_classifier, picture, running, text_classifier
from unitail import TailClassifier


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    numbers = TailClassifier(MODEL, device="cpu", encoder=Letters(), cache=False)
    classifiers = {
        "letters": text_classifier(),
        "colours": colour_classifier(),
        "numbers": numbers.fit(["aaa", "aa", "bbb", "bb"], [1, 1, 2, 2]),
        "floats": clone(numbers).fit(["aaa", "aa", "bbb", "bb"], [1.0, 1.0, 2.0, 2.0]),
        "flags": clone(numbers).fit(["aaa", "aa", "bbb", "bb"], [False, False, True, True]),
    }
    with running(classifiers) as service:
        yield service


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


def test_suggestions_are_valid_for_label_studios_own_package(live: Live) -> None:
    reason = "label-studio-sdk is not installed: the Makefile has the command"
    interfaces = pytest.importorskip("label_studio_sdk.label_interface", reason=reason)
    for name, config, values in (
        ("letters", TEXTS, ("aaaa", "why?", "bbb")),
        ("colours", IMAGES.replace("A", "red").replace("B", "blue"), (red_as_data(),)),
    ):
        suggestions = ask(live, name, config, *values)[1]["results"]
        assert len(suggestions) == len(values)
        interface = interfaces.LabelInterface(config)
        problems = [interface.validate_prediction(each, return_errors=True) for each in suggestions]
        assert problems == [[]] * len(values)
    wrong = {**suggestions[0], "result": [{**suggestions[0]["result"][0], "to_name": "nothing"}]}
    assert interface.validate_prediction(wrong, return_errors=True)


def red_as_data() -> str:
    return f"data:image/png;base64,{base64.b64encode(picture((240, 0, 0))).decode()}"


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
        {"action": "ANNOTATIONS_CREATED", "project": {"label_config": TEXTS}, "annotation": []},
        annotated([], "skipped"),
        annotated(["A", "B"], "two at once"),
        {"action": "PROJECT_UPDATED"},
    ):
        assert post(live, "letters/webhook", event) == (201, {"learned": 0})
    assert live.client.describe("letters")["version"] == before + 1


def test_a_correction_replaces_the_example() -> None:
    with running({"letters": text_classifier()}) as live:
        assert post(live, "letters/webhook", annotated(["B"], "aaaaaa"))[0] == 201
        corrected = {**annotated(["A"], "aaaaaa"), "action": "ANNOTATION_UPDATED"}
        status, reply = post(live, "letters/webhook", corrected)
        learned = {"learned": 1, "model_version": "letters-3", "replaced": 1}
        assert (status, reply) == (201, learned)
        labels = live.client.examples("letters")["labels"]
        assert labels == ["A", "A", "A", "B", "B", "B", "A"]


def test_annotations_that_come_together_are_all_learned() -> None:
    with running({"letters": text_classifier()}) as live:
        one, other = annotated(["A"], "aaaaaa"), annotated(["B"], "bbbbbb")
        many = {
            **one,
            "action": "ANNOTATIONS_CREATED",
            "annotation": [
                {**other["annotation"], "task": 2},
                {**one["annotation"], "task": 1},
                annotated([], "")["annotation"],
            ],
            "task": [one["task"], {**other["task"], "id": 2}],
        }
        assert post(live, "letters/webhook", many)[1]["learned"] == 2
        assert live.client.examples("letters")["labels"][6:] == ["B", "A"]
        assert ask(live, "letters", TEXTS, "bbbbbb")[1]["results"][0]["result"][0]["value"] == {
            "choices": ["B"]
        }


def test_choices_stand_for_classes_that_are_numbers(live: Live) -> None:
    status, _ = post(live, "numbers/webhook", annotated(["2"], "bbbbbb"))
    assert status == 201
    assert live.client.examples("numbers")["labels"] == [1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("numbers", ("1", "2")),
        ("floats", ("1", "2")),
        ("floats", ("1.0", "2.0")),
        ("flags", ("false", "true")),
        ("flags", ("False", "True")),
    ],
)
def test_a_class_is_suggested_as_the_choice_that_names_it(
    live: Live, name: str, choices: tuple[str, str]
) -> None:
    config = TEXTS.replace('"A"', f'"{choices[0]}"').replace('"B"', f'"{choices[1]}"')
    assert post(live, f"{name}/setup", {"project": PROJECT, "schema": config})[0] == 200
    results = ask(live, name, config, "aaa", "bbb")[1]["results"]
    suggested = [each["result"][0]["value"]["choices"] for each in results]
    assert suggested == [[choice] for choice in choices]
    event = {**annotated([choices[1]], "bbbb"), "project": {"label_config": config}}
    assert post(live, f"{name}/webhook", event)[0] == 201
    assert len(live.client.describe(name)["classes"]) == 2  # no new class


def test_a_correction_that_would_leave_one_class_replaces_nothing_and_says_so() -> None:
    lone = TailClassifier(MODEL, device="cpu", encoder=Letters(), cache=False)
    with running({"letters": lone.fit(["aaa", "aa", "bbb"], ["A", "A", "B"])}) as one:
        corrected = {**annotated(["A"], "bbb"), "action": "ANNOTATION_UPDATED"}
        learned = {"learned": 1, "model_version": "letters-2", "replaced": 0}
        assert post(one, "letters/webhook", corrected) == (201, learned)
        assert one.client.examples("letters")["labels"] == ["A", "A", "B", "A"]


def test_a_task_that_cannot_be_read_gets_no_suggestion_and_the_others_do(live: Live) -> None:
    status, reply = ask(live, "letters", TEXTS, "aaaa", "why?", "bbb")
    assert status == 200
    chosen = [each["result"][0]["value"]["choices"] for each in reply["results"] if each["result"]]
    assert (chosen, reply["results"][1]["result"]) == ([["A"], ["B"]], [])
    status, reply = ask(live, "letters", TEXTS, "why?")
    assert (status, "cannot be read" in reply["error"]) == (422, True)


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (IMAGES, "objects of kind image for a classifier of text"),
        (TEXTS.replace('"A"', '"X"').replace('"B"', '"Y"'), "got X, Y; allowed: A, B"),
    ],
)
def test_a_project_for_another_classifier_is_refused_when_the_model_is_added(
    live: Live, schema: str, sentence: str
) -> None:
    status, reply = post(live, "letters/setup", {"project": PROJECT, "schema": schema})
    assert (status, sentence in reply["error"]) == (422, True), reply
