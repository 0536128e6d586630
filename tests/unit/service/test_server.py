import http.client
import json
import signal
import threading
import time
from typing import Any

import pytest

from helpers.services import ASKED, running, vector_classifier
from helpers.studios import wait_until
from unitail.client import Client, Refused
from unitail.service.questions import answer


def test_a_stop_loses_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients ask while the server stops: each gets a whole answer or no connection."""

    def slow(questions: Any) -> Any:  # noqa: ANN401
        time.sleep(0.05)
        return answer(questions)

    monkeypatch.setattr("unitail.service.batching.answer", slow)
    answered, refused, lost = [], [], []

    def ask(url: str) -> None:
        with Client(url, retries=0) as client:
            while not refused:
                try:
                    answered.append(client.predict("blobs", vectors=ASKED[:1])["answers"])
                except Refused as error:
                    (refused if "refused" in str(error).lower() else lost).append(error)
                    return

    with running({"blobs": vector_classifier()}, drain_seconds=600) as live:
        threads = [threading.Thread(target=ask, args=(live.url,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        while len(answered) < 8:
            time.sleep(0.01)
        before = len(answered)
        live.server.handle_exit(signal.SIGTERM, None)
        ready = http.client.HTTPConnection("127.0.0.1", int(live.url.rpartition(":")[2]))
        ready.request("GET", "/ready")
        assert ready.getresponse().status == 503
        ready.close()
        wait_until(lambda: len(answered) > before + 8)  # it goes on answering
        live.server._exit(signal.SIGTERM)  # and then closes the door
        for thread in threads:
            thread.join(60)
        live.thread.join(60)
        assert not live.thread.is_alive()
    assert before > 0
    assert refused
    assert not lost


def test_connections_that_are_queued_when_the_server_stops_are_answered() -> None:
    with running({"blobs": vector_classifier()}) as live:
        loop, listener = live.server._loop, live.server.servers[0].sockets[0]
        assert loop is not None
        stopped = threading.Event()
        loop.call_soon_threadsafe(lambda: (loop.remove_reader(listener), stopped.set()))
        assert stopped.wait(60)  # nobody accepts any more
        waiting = []
        for _ in range(5):
            connection = http.client.HTTPConnection("127.0.0.1", int(live.url.rpartition(":")[2]))
            connection.request("GET", "/v1/classifiers")
            waiting.append(connection)
        live.server.handle_exit(signal.SIGTERM, None)
        for connection in waiting:
            assert connection.getresponse().status == 200
            connection.close()
        live.thread.join(60)


def test_an_interrupt_from_the_keyboard_answers_what_is_in_progress_too() -> None:
    with running({"blobs": vector_classifier()}, drain_seconds=600) as live:
        live.server.handle_exit(signal.SIGINT, None)
        assert live.client.predict("blobs", vectors=ASKED[:1])["answers"]
        assert not live.server.should_exit
        assert not live.server.force_exit


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_stops_at_once(
    second: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def held(questions: Any) -> Any:  # noqa: ANN401
        asked.set()
        may_answer.wait(60)
        return answer(questions)

    monkeypatch.setattr("unitail.service.batching.answer", held)
    with running({"blobs": vector_classifier()}, drain_seconds=0.2) as live:
        connection = http.client.HTTPConnection("127.0.0.1", int(live.url.rpartition(":")[2]))
        body = json.dumps({"vectors": ASKED[:1].tolist()})
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/classifiers/blobs/predict", body, headers)
        assert asked.wait(60)
        for sig in (signal.SIGTERM, second):
            live.server.handle_exit(sig, None)
        assert live.server.should_exit
        live.thread.join(20)  # it would wait for the answer for a minute
        is_stopped = not live.thread.is_alive()
        may_answer.set()
        connection.close()
    assert is_stopped
