"""Labels of new examples: their length, their kind, and the class that a name stands for."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from helpers.services import (
    ASKED,
    MODEL,
    Live,
    X,
    Y,
    colour_classifier,
    picture,
    running,
    vector_classifier,
)
from unitail import TailClassifier
from unitail.service.labels import label_of, new_labels, places_of
from unitail.service.limits import MAX_LABEL
from unitail.web.replies import Refusal

NUMBERS = np.array([1, 2])


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    shades = [(250, 0, 0), (200, 9, 9), (0, 0, 250), (9, 9, 200)]
    images = [np.full((4, 4, 3), shade, np.uint8) for shade in shades]
    numbered = TailClassifier(MODEL, device="cpu", encoder=colour_classifier()._inputs.encoder)
    numbered.set_params(cache=False)
    words = TailClassifier(MODEL, device="cpu").fit(X, np.array(["a", "b", "c"])[Y])
    classifiers = {
        "blobs": vector_classifier(),
        "words": words,
        "colours": colour_classifier(),
        "numbered": numbered.fit(images, [7, 7, 8, 8]),
    }
    with running(classifiers) as service:
        yield service


def add(live: Live, name: str, label: str) -> tuple[int, str]:
    """Add an example whose label is written as JSON; return the status and the sentence."""
    body = f'{{"vectors": {json.dumps(ASKED[:1].tolist())}, "labels": [{label}]}}'
    request = urllib.request.Request(
        f"{live.url}/v1/classifiers/{name}/examples",
        body.encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())["error"]


@pytest.mark.parametrize(
    ("name", "label", "sentence"),
    [
        ("blobs", "1.5", "cannot be a label of this classifier: got 1.5; allowed: whole numbers"),
        ("blobs", "1e999", "got inf; allowed: whole numbers from -9223372036854775808 to"),
        ("blobs", str(2**63), "got 9223372036854775808; allowed: whole numbers from"),
        ("blobs", "9" * 400, "got 9999"),
        ("blobs", '"1"', "got '1'; allowed: whole numbers, as the labels of this classifier"),
        ("blobs", "true", "got True; allowed: whole numbers, as"),
        ("words", "1", "got 1; allowed: texts, as the labels of this classifier"),
        ("words", json.dumps("L" * (MAX_LABEL + 1)), "labels.0"),
        (
            "words",
            '"a\\u0000"',
            r"got 'a\x00'; allowed: characters that UTF-8 can encode",
        ),
        ("words", '"\\u0000"', "without NUL"),
        ("words", '"\\ud800"', "the body is invalid"),
    ],
)
def test_labels_that_the_classifier_cannot_have_are_refused(
    live: Live, name: str, label: str, sentence: str
) -> None:
    status, said = add(live, name, label)
    assert (status, sentence in said) == (422, True), said
    assert len(said) < 500


def test_labels_that_no_reply_can_hold_are_refused_by_every_way_in(live: Live) -> None:
    """One of them would make every later reply that lists the classes fail."""
    for wrong in ("\ud800", "a\udfff", "a\0", "\0b"):
        with pytest.raises(Refusal, match=r"label 1 .*allowed: characters that UTF-8 can encode"):
            new_labels(np.array(["a", "b"]), ["a", wrong])
    form = (
        b'--e\r\nContent-Disposition: form-data; name="files"; filename="0"\r\n\r\n'
        + picture((1, 2, 3))
        + b'\r\n--e\r\nContent-Disposition: form-data; name="labels"\r\n\r\n'
        + b"red\0"
        + b"\r\n--e--\r\n"
    )
    request = urllib.request.Request(
        f"{live.url}/v1/classifiers/colours/examples/files",
        form,
        {"Content-Type": "multipart/form-data; boundary=e"},
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    with caught.value as error:
        assert error.code == 422
        assert rb"got 'red\\x00'; allowed: characters" in error.read()
    assert new_labels(np.array(["a", "b"]), ["\U0001f98a", "ü\n"]) == ["\U0001f98a", "ü\n"]
    assert live.client.describe("colours")["version"] == 1


def test_the_longest_label_is_taken_and_longer_ones_are_refused_by_every_way_in(
    live: Live,
) -> None:
    with pytest.raises(Refusal, match=r"label 1 .*got 257 characters; allowed: at most 256"):
        new_labels(np.array(["a", "b"]), ["a", "L" * 257])
    assert new_labels(np.array(["a", "b"]), ["L" * 256]) == ["L" * 256]
    form = (
        b'--e\r\nContent-Disposition: form-data; name="files"; filename="0"\r\n\r\n'
        + picture((1, 2, 3))
        + b'\r\n--e\r\nContent-Disposition: form-data; name="labels"\r\n\r\n'
        + b"L" * 257
        + b"\r\n--e--\r\n"
    )
    request = urllib.request.Request(
        f"{live.url}/v1/classifiers/numbered/examples/files",
        form,
        {"Content-Type": "multipart/form-data; boundary=e"},
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    with caught.value as error:
        assert (error.code, b"labels.0 is invalid" in error.read()) == (422, True)


def test_a_whole_number_keeps_its_class_and_its_dtype_however_it_is_written() -> None:
    for classes, given, dtype in (
        (NUMBERS, [1.0, 2, 3.0], np.int64),
        (NUMBERS.astype(np.int8), [1.0, 300], np.int64),
        (NUMBERS.astype(np.uint8), [1.0, 2**63], np.uint64),
        (NUMBERS.astype(np.float64), [1, 2.0], np.float64),
    ):
        labels: Any = new_labels(classes, given)
        assert labels.dtype == dtype
        assert labels.tolist() == given
    assert new_labels(np.array([False, True]), [True]) == [True]
    for wrong in ([1], ["true"], [1.0]):
        with pytest.raises(Refusal, match="true or false"):
            new_labels(np.array([False, True]), wrong)
    with pytest.raises(Refusal, match="whole numbers from 0 to"):
        new_labels(NUMBERS.astype(np.uint8), [-1])


def test_one_label_with_a_point_leaves_the_others_whole(live: Live) -> None:
    assert add(live, "blobs", "1.0")[0] == 200
    labels = [each["label"] for each in live.client.describe("blobs")["classes"]]
    assert json.dumps(labels) == "[0, 1, 2]"
    assert json.dumps(live.client.examples("blobs")["labels"][-1]) == "1"


def test_files_get_classes_of_numbers_by_name(live: Live) -> None:
    added = live.client.add("numbered", [7, 9], files=[picture((250, 5, 5))] * 2)
    assert added["classes"] == [
        {"label": 7, "examples": 3},
        {"label": 8, "examples": 2},
        {"label": 9, "examples": 1},
    ]


@pytest.mark.parametrize(
    ("classes", "text", "label"),
    [
        (NUMBERS, "2", 2),
        (NUMBERS, "-3", -3),
        (NUMBERS, "x", "x"),
        (NUMBERS, "9" * 5000, "9" * 5000),
        (NUMBERS.astype(np.float64), "2", 2.0),
        (NUMBERS.astype(np.float64), "2.0", 2.0),
        (np.array([False, True]), "true", True),
        (np.array([False, True]), "False", False),
        (np.array(["1", "b"]), "1", "1"),
        (np.array(["1", "b"]), "2", "2"),
    ],
)
def test_a_name_stands_for_the_class_that_is_written_so(
    classes: np.ndarray[Any, Any], text: str, label: object
) -> None:
    meant = label_of(classes, text)
    assert (type(meant), meant) == (type(label), label)


def test_classes_are_found_by_name_and_few_are_listed_shortly() -> None:
    classes = np.array([f"{place}" + "L" * 5000 for place in range(30)])
    assert places_of(NUMBERS, np.array([2, 1, 2]), "2").tolist() == [0, 2]
    assert places_of(np.array([False, True]), np.array([True, False]), "true").tolist() == [0]
    with pytest.raises(Refusal, match="and 20 more") as caught:
        places_of(classes, classes, "x" * 5000)
    assert len(str(caught.value)) < 700
