"""The server of a studio is killed under somebody who labels: at most one action is lost."""

import http.client
import json
import os
import random
import signal
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from helpers.forks import COMMAND, finish, fork, line_of

ROWS, KILLS = 60, 5
TOKEN = "a-token-that-the-test-knows"
LOST = (urllib.error.URLError, http.client.HTTPException, ConnectionError)
"""What a client sees of a server that dies; a refusal is an `HTTPError`, which is re-raised."""
Labels = dict[int, tuple[int | None, int]]
"""Class and version of the label of each item that ever had one."""


class Server:
    """`unitail studio` in a process of its own."""

    def __init__(self, table: Path, output: Path) -> None:
        command = ("studio", table, "--no-browser", "--token", TOKEN)
        self.process = fork(COMMAND, *command, output=output)
        self.address = line_of(output, self.process, r"The studio is at (\S+)\?token=")[1]

    def ask(self, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "content-type": "application/json",
            "cookie": "unitail_author=0123456789abcdef",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read()) from error

    def state(self) -> Any:  # noqa: ANN401 - JSON
        end = time.monotonic() + 120
        while True:
            try:
                return self.ask("api/state")
            except LOST:
                assert time.monotonic() < end, "the studio never answered"
                time.sleep(0.05)

    def kill(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGKILL)


def labels_in(state: Any) -> Labels:  # noqa: ANN401 - JSON
    return {place: (class_id, version) for place, class_id, version in state["changes"]["labels"]}


def label_until_killed(
    server: Server, labels: Labels, classes: list[int], generator: random.Random
) -> dict[int, int | None]:
    """Label items one after the other, and note what was confirmed; return what was in flight."""
    while True:
        places = generator.sample(range(ROWS), generator.choice([1, 1, 20]))
        class_id = generator.choice([*classes, None])
        items = {place: labels.get(place, (None, 0))[1] for place in places}
        body = {"items": items, "class_id": class_id}
        try:
            revision = server.ask("api/label", body)["revision"]
        except LOST:
            return dict.fromkeys(places, class_id)
        labels.update(dict.fromkeys(places, (class_id, revision)))


@pytest.mark.slow
def test_a_killed_server_loses_at_most_the_action_in_flight(tmp_path: Path) -> None:
    table, generator = tmp_path / "t.csv", random.Random(0)
    table.write_text("x,y\n" + "".join(f"{n},{n % 7}\n" for n in range(ROWS)))
    server = Server(table, tmp_path / "output")
    labels: Labels = {}
    confirmed = 0
    try:
        server.state()
        for name in ("one", "two"):
            server.ask("api/classes", {"name": name})
        for number in range(KILLS):
            killer = threading.Timer(generator.uniform(0.2, 1.0), server.kill)
            killer.start()
            before = dict(labels)
            in_flight = label_until_killed(server, labels, [1, 2], generator)
            confirmed += labels != before
            assert finish(server.process) == -signal.SIGKILL
            server = Server(table, tmp_path / f"output {number}")
            stored = labels_in(server.state())
            kept = {
                place: (class_id, stored[place][1])
                for place, class_id in in_flight.items()
                if stored.get(place, (None, 0)) != labels.get(place, (None, 0))
            }
            assert kept.keys() in (set(), in_flight.keys())  # all of the action, or nothing
            labels.update(kept)
            assert stored == labels
        assert confirmed == KILLS
        assert server.ask("api/undo", {})["title"].startswith("Undone: ")
    finally:
        server.process.kill()
