"""Against the protocol's own package: its client speaks to our server."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mcp import Client

from helpers.services import ASKED, MODEL, text_classifier, vector_classifier
from unitail import TailClassifier
from unitail.errors import InvalidInput
from unitail.service.classifiers import Classifiers
from unitail.service.mcp_server import _evaluate, make_mcp_server


def with_client(work: Callable[[Client], Awaitable[None]]) -> None:
    classifiers = Classifiers()
    classifiers.add("blobs", vector_classifier())
    classifiers.add("letters", text_classifier())

    async def run() -> None:
        async with Client(make_mcp_server(classifiers)) as client:
            await work(client)

    asyncio.run(run())


async def call(client: Client, tool: str, **arguments: Any) -> Any:  # noqa: ANN401
    result = await client.call_tool(tool, arguments)
    text = result.content[0].text
    if result.is_error:
        return text
    return json.loads(text)


def test_a_model_classifies_teaches_and_evaluates() -> None:
    async def work(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"list_classifiers", "classify", "add_examples", "evaluate"}
        assert "coverage" in tools["classify"].input_schema["properties"]
        reply = await call(client, "classify", name="blobs", vectors=ASKED.tolist())
        wrong = await call(client, "classify", name="blobs", vectors=[[0, "1", True]])
        assert re.findall(r"vectors\.0\.\d", wrong) == ["vectors.0.1", "vectors.0.2"], wrong
        labels = [each["label"] for each in reply["answers"]]
        assert labels == vector_classifier().predict(ASKED).tolist()
        assert {"probability", "set", "novelty"} <= reply["answers"][0].keys()
        added = await call(client, "add_examples", name="letters", texts=["abab"], labels=["both"])
        assert [each["label"] for each in added["classes"]] == ["A", "B", "both"]
        reply = await call(client, "classify", name="letters", texts=["aaaa", "bbbb"])
        assert (reply["version"], [each["label"] for each in reply["answers"]]) == (2, ["A", "B"])
        estimate = await call(client, "evaluate", name="blobs")
        accuracy = estimate["accuracy"]
        assert 0 <= accuracy["low"] <= accuracy["mean"] <= accuracy["high"] <= 1
        assert (estimate["examples"], estimate["asked"]) == (12, 12)
        assert accuracy["mean"] == estimate["right"] / 12 > 0.5

    with_client(work)


def test_what_is_evaluated_is_the_classifier_that_answers() -> None:
    """Its weights, scale and pool are a part of it, and copies of a row never answer for it."""
    rows = np.array([[0.0], [0.1], [5.0], [4.9], [0.05]])
    labels = ["a", "a", "b", "b", "b"]  # the last one is wrong, and where it is heavy it wins

    def evaluated(count: int, **weights: Any) -> dict[str, Any]:  # noqa: ANN401
        classifier = TailClassifier(MODEL, device="cpu", scale="none")
        classifiers = Classifiers()
        classifiers.add("it", classifier.fit(rows[-count:], labels[-count:], **weights))
        return _evaluate(classifiers.find("it").newest)

    light, heavy = evaluated(5), evaluated(5, sample_weight=[1, 1, 1, 1, 9])
    assert (light["right"], heavy["right"]) == (3, 2)
    assert (heavy["asked"], heavy["examples"]) == (5, 5)
    assert heavy["accuracy"]["low"] < 0.4 < heavy["accuracy"]["high"]
    rows, labels = rows[[0, 2]], ["a", "b"]
    with pytest.raises(InvalidInput, match="got no class with two examples or more"):
        evaluated(2)


def test_rows_of_a_table_are_classified_and_learned() -> None:
    frame = pd.DataFrame({"size": [1.0, 1.2, 0.8, 5.0, 5.5, 4.9], "kind": list("xxyzzz")})
    table = TailClassifier(MODEL, device="cpu", encoder="auto").fit(frame, list("aaabbb"))
    classifiers = Classifiers()
    classifiers.add("table", table)

    async def run() -> None:
        async with Client(make_mcp_server(classifiers)) as client:
            row = {"size": 1.1, "kind": "x"}
            reply = await call(client, "classify", name="table", rows=[row])
            assert reply["answers"][0]["label"] == "a"
            added = await call(client, "add_examples", name="table", rows=[row], labels=["c"])
            assert [each["label"] for each in added["classes"]] == ["a", "b", "c"]

    asyncio.run(run())


def test_the_command_speaks_over_standard_input_and_output(tmp_path: Path) -> None:
    saved = vector_classifier().save(tmp_path / "blobs")
    command = [sys.executable, "-m", "unitail", "mcp", str(saved), "--device", "cpu"]
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    asked = {"name": "classify", "arguments": {"name": "blobs", "vectors": ASKED[:1].tolist()}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked},
    ]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in messages:
            process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        replies = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdin.close()
        assert not process.stdout.read()  # nothing but messages of the protocol
    assert replies[0]["result"]["serverInfo"]["name"] == "unitail"
    answer = json.loads(replies[1]["result"]["content"][0]["text"])["answers"][0]
    assert answer["label"] == vector_classifier().predict(ASKED[:1])[0]


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("classify", {"name": "nothing", "texts": ["a"]}, "no classifier of that name"),
        (
            "add_examples",
            {"name": "blobs", "vectors": [[0.0] * 6], "labels": [1.5]},
            "cannot be a label of this classifier: got 1.5; allowed: whole numbers",
        ),
        (
            "classify",
            {"name": "letters", "texts": ["a"], "rows": [{}]},
            "items of one kind: got texts and rows; allowed: one of texts, vectors and rows",
        ),
        ("classify", {"name": "blobs"}, "a call takes items of one kind: got none"),
        ("classify", {"name": "blobs", "texts": ["/etc/passwd"]}, "does not take such items"),
        (
            "classify",
            {"name": "letters", "texts": []},
            "cannot contain this many texts: got 0",
        ),
        ("add_examples", {"name": "letters", "texts": ["a"], "labels": []}, "1 item and 0 labels"),
        ("add_examples", {"name": "letters", "texts": ["a"], "labels": ["A\0"]}, "without NUL"),
    ],
)
def test_what_is_wrong_is_told_to_the_model(
    tool: str, arguments: dict[str, Any], sentence: str
) -> None:
    async def work(client: Client) -> None:
        assert sentence in await call(client, tool, **arguments)

    with_client(work)
