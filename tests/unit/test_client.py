import threading
from collections.abc import Iterator

import pytest

from helpers.services import ASKED, Live, running, vector_classifier
from unitail.client import Client, Refused
from unitail.errors import InvalidConfig


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with running({"blobs": vector_classifier()}) as service:
        yield service


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://localhost", "http://", ""])
def test_an_address_is_a_url(url: str) -> None:
    with pytest.raises(InvalidConfig, match="the address of a service is a URL: got"):
        Client(url)


def test_a_service_that_is_not_there_is_told() -> None:
    client = Client("http://127.0.0.1:9")
    with pytest.raises(Refused, match=r"127\.0\.0\.1 does not answer") as caught:
        client.classifiers()
    assert caught.value.status == 0
    assert not client.ready()


def test_threads_share_a_client(live: Live) -> None:
    labels: list[list[int]] = []

    def ask() -> None:
        answers = live.client.predict("blobs", vectors=ASKED)["answers"]
        labels.append([each["label"] for each in answers])

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert labels == [vector_classifier().predict(ASKED).tolist()] * 6


def test_a_connection_that_was_closed_in_the_meantime_is_opened_again(live: Live) -> None:
    assert live.client.classifiers()
    live.client._connection().sock.shutdown(2)
    assert live.client.classifiers()
    live.client.close()
    assert live.client.classifiers()


def test_refusals_carry_their_sentence(live: Live) -> None:
    with pytest.raises(Refused, match="there is no classifier of that name: got 'x y'") as caught:
        live.client.describe("x y")
    assert caught.value.status == 404
