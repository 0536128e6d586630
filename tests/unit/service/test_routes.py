import json
import threading
import urllib.request
from collections.abc import Iterator

import numpy as np
import pandas as pd
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
    text_classifier,
    vector_classifier,
)
from unitail import TailClassifier
from unitail.client import Refused
from unitail.errors import CannotWrite
from unitail.web.replies import JsonReply

TABLE = pd.DataFrame({"size": [1.0, 1.2, 0.8, 5.0, 5.5, 4.9], "kind": list("xxyzzz")})
DIGITS = 1e-8
"""What eight digits of a probability leave out."""
NEW_ROWS = [{"size": 1.1, "kind": "x"}, {"kind": "z", "size": None}]


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    table = TailClassifier(MODEL, device="cpu", encoder="auto").fit(
        TABLE, ["low"] * 3 + ["high"] * 3
    )
    classifiers = {
        "blobs": vector_classifier(),
        "colours": colour_classifier(),
        "letters": text_classifier(),
        "table": table,
    }
    with running(classifiers) as service:
        yield service


def get(live: Live, path: str) -> tuple[int, str]:
    with urllib.request.urlopen(live.url + path) as reply:
        return reply.status, reply.read().decode()


def refused(ask: object, *arguments: object, **named: object) -> Refused:
    with pytest.raises(Refused) as caught:
        ask(*arguments, **named)  # type: ignore[operator]
    return caught.value


def test_vectors_get_the_classifiers_own_answers(live: Live) -> None:
    bare = vector_classifier()
    reply = live.client.predict("blobs", vectors=ASKED, coverage=0.8)
    assert (reply["classifier"], reply["version"], reply["classes"]) == ("blobs", 1, [0, 1, 2])
    answers = reply["answers"]
    assert [each["label"] for each in answers] == bare.predict(ASKED).tolist()
    probabilities = np.array([each["probabilities"] for each in answers])
    assert np.abs(probabilities - bare.predict_proba(ASKED)).max() < DIGITS
    sets = bare.set_labels(bare.predict_set(ASKED, 0.8))
    assert [each["set"] for each in answers] == [each.tolist() for each in sets]
    assert np.allclose([each["novelty"] for each in answers], bare.novelty(ASKED), atol=1e-6)


def test_one_row_is_a_batch_of_one_and_less_can_be_asked(live: Live) -> None:
    reply = live.client.predict(
        "blobs", vectors=[ASKED[0]], probabilities=False, coverage=None, novelty=False
    )
    assert [each.keys() for each in reply["answers"]] == [{"label", "probability"}]


def test_the_examples_that_decided_an_answer_are_named(live: Live) -> None:
    bare = vector_classifier().influence(ASKED)
    plain = live.client.predict("blobs", vectors=ASKED)["answers"]
    reply = live.client.predict("blobs", vectors=ASKED, influence=2)["answers"]
    assert "influence" not in plain[0]
    for place, (answer, other) in enumerate(zip(reply, plain, strict=True)):
        deciding = answer.pop("influence")
        assert answer == other
        assert [each["example"] for each in deciding] == bare.top(2)[place].tolist()
        values = [bare.values[place, each["example"]] for each in deciding]
        assert [each["value"] for each in deciding] == pytest.approx(values, abs=DIGITS)
        assert all(each["label"] == Y[each["example"]] for each in deciding)
    red = live.client.predict("colours", files=[picture((240, 5, 5))], influence=1)
    assert red["answers"][0]["influence"][0]["label"] == "red"
    assert 0 < red["answers"][0]["influence"][0]["share"] <= 1
    for wrong in (-1, 101):
        assert refused(live.client.predict, "blobs", vectors=ASKED, influence=wrong).status == 422


def test_a_large_reply_is_the_same_as_a_small_one(live: Live) -> None:
    many = np.tile(ASKED[:5], (80, 1))  # 1,200 probabilities
    answers = live.client.predict("blobs", vectors=many)["answers"]
    assert len(answers) == 400
    alone = live.client.predict("blobs", vectors=ASKED[:5])["answers"]
    for answer, expected in zip(answers[-5:], alone, strict=True):
        assert answer["label"] == expected["label"]
        assert answer["probabilities"] == expected["probabilities"]


def test_replies_of_many_numbers_are_written_in_a_thread(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers: list[str] = []
    write = JsonReply.render

    def watched(reply: JsonReply, content: object) -> bytes:
        writers.append(threading.current_thread().name)
        return write(reply, content)

    monkeypatch.setattr(JsonReply, "render", watched)
    many = np.tile(ASKED[:5], (20, 1))  # 300 probabilities
    live.client.predict("blobs", vectors=many)
    live.client.predict("blobs", vectors=many, influence=10)
    assert [writer.startswith("parsing") for writer in writers] == [False, True]


def test_missing_values_are_null(live: Live) -> None:
    row = [*ASKED[0][:-1].tolist(), None]
    reply = live.client.predict("blobs", vectors=[row])
    expected = vector_classifier().predict_proba([[*ASKED[0][:-1], np.nan]])[0]
    assert reply["answers"][0]["probabilities"] == pytest.approx(expected, abs=DIGITS)


def test_texts_images_and_rows_are_encoded_as_the_classifier_does(live: Live) -> None:
    texts = ["a", "/etc/passwd", "bb"]
    by_text = live.client.predict("letters", texts=texts)["answers"]
    assert [each["label"] for each in by_text] == text_classifier().predict(texts).tolist()
    files = [picture((220, 5, 5)), picture((5, 5, 220), kind="JPEG")]
    by_file = live.client.predict("colours", files=files)["answers"]
    expected = colour_classifier().predict_proba(files)
    assert [each["label"] for each in by_file] == ["red", "blue"]
    assert [each["probabilities"] for each in by_file] == pytest.approx(expected, abs=DIGITS)
    as_files = live.client.predict("letters", files=[b"aaaa", b"bbbb"], novelty=False)["answers"]
    assert [each["label"] for each in as_files] == ["A", "B"]
    assert "novelty" not in as_files[0]
    plain = live.client.predict("letters", files=[b"aaaa"], coverage=None)["answers"][0]
    assert "set" not in plain
    assert "set" in as_files[0]
    by_row = live.client.predict("table", rows=NEW_ROWS)["answers"]
    assert [each["label"] for each in by_row] == ["low", "high"]


@pytest.mark.parametrize(
    ("name", "items", "sentence"),
    [
        ("blobs", {"vectors": [[1.0]]}, "not as wide as the examples: got 1 number; allowed: 6"),
        ("blobs", {"vectors": [[1.0], [1.0, 2.0]]}, "vectors differ in width: got 1, 2"),
        ("blobs", {"vectors": [[float("inf")] * 6]}, "not finite: got row 0"),
        (
            "blobs",
            {"vectors": []},
            "cannot contain this many vectors: got 0; allowed: 1 to 1,000",
        ),
        ("blobs", {"vectors": [["a"] * 6]}, "vectors.0.0 is invalid: got 'a'"),
        ("blobs", {"texts": ["a"]}, "'blobs' does not take such items: got texts; allowed: vec"),
        ("blobs", {"files": [b"a"]}, "does not take such items: got files; allowed: vectors"),
        ("letters", {"texts": ["a", "why?"]}, "item 1 (the first is 0) cannot be read: got a qu"),
        (
            "letters",
            {"files": [b"\xff"]},
            "item 0 (the first is 0) cannot be read: got not UTF-8 text",
        ),
        ("letters", {"texts": ["a"], "coverage": 1.5}, "coverage is invalid: got 1.5"),
        ("colours", {"texts": ["/etc/passwd"]}, "does not take such items: got texts; allowed: fi"),
        ("colours", {"files": [b"no image"]}, "item 0 (the first is 0) cannot be read"),
        (
            "table",
            {"rows": [{"size": 1}]},
            "row 0 (the first is 0) lacks columns that the examples have",
        ),
    ],
)
def test_what_cannot_be_answered_is_told(
    live: Live, name: str, items: dict[str, object], sentence: str
) -> None:
    refusal = refused(live.client.predict, name, **items)
    assert refusal.status == 422
    assert sentence in str(refusal)


def test_examples_are_added_and_removed_and_versions_stay() -> None:
    with running({"blobs": vector_classifier(scale="none")}) as live:
        client = live.client
        before = client.predict("blobs", vectors=ASKED)["answers"]
        new = client.add("blobs", [3, 3], vectors=ASKED[:2] + 9)
        assert new["version"] == 2
        assert new["classes"][-1] == {"label": 3, "examples": 2}
        grown = vector_classifier(scale="none").add(ASKED[:2] + 9, [3, 3])
        after = client.predict("blobs", vectors=ASKED)
        assert after["version"] == 2
        assert [each["probabilities"] for each in after["answers"]] == pytest.approx(
            grown.predict_proba(ASKED), abs=DIGITS
        )
        assert client.predict("blobs", vectors=ASKED, version=1)["answers"] == before
        examples = client.examples("blobs")
        assert examples == {"version": 2, "labels": [*Y.tolist(), 3, 3]}
        stale = refused(client.remove, "blobs", [0], version=1)
        assert stale.status == 409
        assert "the classifier has changed since: got version 1; allowed: version 2" in str(stale)
        assert client.remove("blobs", [0, 12, 13], version=2)["version"] == 3
        rest = TailClassifier(MODEL, device="cpu", scale="none").fit(X[1:], Y[1:])
        answers = client.predict("blobs", vectors=ASKED)["answers"]
        assert [each["probabilities"] for each in answers] == pytest.approx(
            rest.predict_proba(ASKED), abs=DIGITS
        )


def test_classes_go_and_the_last_two_stay() -> None:
    with running({"letters": text_classifier(), "colours": colour_classifier()}) as live:
        client = live.client
        added = client.add("letters", ["a/b"], texts=["abab"])
        assert [each["label"] for each in added["classes"]] == ["A", "B", "a/b"]
        gone = refused(client.remove_class, "letters", "C")
        assert (gone.status, "no such class: got 'C'; allowed: A, B, a/b" in str(gone)) == (
            404,
            True,
        )
        assert len(client.remove_class("letters", "a/b")["classes"]) == 2
        alone = refused(client.remove_class, "letters", "A")
        assert (alone.status, "at least two classes" in str(alone)) == (422, True)
        assert client.describe("letters")["version"] == 3
        added = client.add("colours", ["green"], files=[picture((0, 250, 0))])
        answers = client.predict("colours", files=[picture((5, 240, 0))])["answers"]
        assert answers[0]["label"] == "green"
        wrong = refused(client.add, "colours", ["green", "red"], files=[picture((0, 1, 0))])
        assert "got 1 item and 2 labels" in str(wrong)
        for shots in range(5):
            client.add("letters", ["A"], texts=["a" * shots])
        old = refused(client.predict, "letters", texts=["a"], version=1)
        assert old.status == 409
        assert "got version 1; allowed: 4, 5, 6, 7, 8. Name one of these" in str(old)


def test_a_full_disk_is_no_fault_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(*_: object) -> None:
        raise CannotWrite(
            "it could not be written", got="No space left", allowed="a disk with room"
        )

    monkeypatch.setattr("unitail.service.classifiers.Served.changed", changed)
    with running({"blobs": vector_classifier()}) as live:
        refusal = refused(live.client.add, "blobs", [1], vectors=ASKED[:1])
        assert refusal.status == 507
        assert "No space left" in str(refusal)


def test_a_service_that_takes_no_changes_says_so() -> None:
    with running({"blobs": vector_classifier()}, read_only=True) as live:
        for change in (
            lambda: live.client.add("blobs", [1], vectors=ASKED[:1]),
            lambda: live.client.remove("blobs", [0], version=1),
            lambda: live.client.remove_class("blobs", 0),
        ):
            refusal = refused(change)
            assert refusal.status == 403
            assert "is read-only: got a change; allowed: predictions" in str(refusal)


def test_the_service_describes_itself(live: Live) -> None:
    named = {each["name"]: each["takes"] for each in live.client.classifiers()}
    assert named == {"blobs": "vectors", "colours": "image", "letters": "text", "table": "table"}
    assert live.client.describe("colours")["encoder"] == "mean-colour"
    schema = json.loads(get(live, "/openapi.json")[1])
    assert "/v1/classifiers/{name}/predict" in schema["paths"]
    assert schema["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert schema["paths"]["/health"]["get"]["security"] == []
    replies = schema["paths"]["/v1/classifiers/{name}/predict"]["post"]["responses"]
    assert {"401", "403", "408", "413", "422", "503"} <= set(replies)
    assert "versions" in schema["components"]["schemas"]["Classifier"]["properties"]
    assert live.client.describe("blobs")["versions"] == [1]
    page = get(live, "/")[1]
    assert "Authorization: Bearer TOKEN" in page
    for path in schema["paths"]:
        assert path in page
    assert "<script" not in page
    assert "http://" not in page.replace(live.url, "")
    assert "https://" not in page
    assert get(live, "/health")[0] == 200
    assert live.client.ready()


def test_metrics_count_what_was_asked(live: Live) -> None:
    live.client.predict("blobs", vectors=ASKED)
    text = get(live, "/metrics")[1]
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    predict = 'unitail_requests_total{route="/v1/classifiers/{name}/predict",status="200"}'
    assert float(lines[predict]) >= 1
    assert float(lines["unitail_rows_total"]) >= len(ASKED)
    assert lines['unitail_examples{name="blobs"}'] == "12.0"
    assert "unitail_batch_requests_sum" in lines
    assert "process_resident_memory_bytes" in lines
