"""Services that run in a thread of the test, at a free port."""

import io
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from PIL import Image

from helpers.blobs import blobs
from helpers.colours import MeanColour
from helpers.letters import Letters
from unitail import TailClassifier
from unitail.client import Client
from unitail.nn.episode_model import Visibility
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational
from unitail.service.app import make_app
from unitail.service.classifiers import Classifiers
from unitail.service.limits import ServiceLimits
from unitail.service.server import GracefulServer, make_server
from unitail.service.service import Service
from unitail.web.access import Access

X, Y, ASKED, _ = blobs(ways=3, shots=4, queries=5, width=6)
MODEL = Relational(PRESETS["tiny"])
"""Untrained, which starts from ridge regression: quick, and good enough for blobs."""
MODEL.trained_visibilities = (Visibility.ISOLATED, Visibility.JOINT)


def vector_classifier(**settings: object) -> TailClassifier:
    """Return a classifier of vectors."""
    return TailClassifier(MODEL, device="cpu", **settings).fit(X, Y)  # type: ignore[arg-type]


def picture(
    colour: tuple[int, int, int], size: tuple[int, int] = (8, 6), kind: str = "PNG"
) -> bytes:
    """Return the bytes of a file with an image of one colour."""
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, kind)
    return buffer.getvalue()


def large_png(side: int) -> bytes:
    """Return a small file that holds a large image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack("!I", zlib.crc32(kind + data))
        return struct.pack("!I", len(data)) + kind + data + check

    head = struct.pack("!IIBBBBB", side, side, 8, 0, 0, 0, 0)
    squeeze = zlib.compressobj(9)
    row = bytes(1 + side)
    lines = b"".join([*(squeeze.compress(row) for _ in range(side)), squeeze.flush()])
    chunks = chunk(b"IHDR", head) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def colour_classifier() -> TailClassifier:
    """Return a classifier of images: red or blue."""
    shades = [(250, 0, 0), (200, 9, 9), (180, 0, 30), (0, 0, 250), (9, 9, 200), (30, 0, 180)]
    images = [np.full((4, 4, 3), shade, np.uint8) for shade in shades]
    labels = ["red"] * 3 + ["blue"] * 3
    return TailClassifier(MODEL, device="cpu", encoder=MeanColour(), cache=False).fit(
        images, labels
    )


def text_classifier() -> TailClassifier:
    """Return a classifier of texts: more a or more b."""
    texts = ["aaa", "aa", "aab", "bbb", "bb", "bba"]
    labels = ["A"] * 3 + ["B"] * 3
    return TailClassifier(MODEL, device="cpu", encoder=Letters(), cache=False).fit(texts, labels)


@dataclass(frozen=True)
class Live:
    """A service that runs."""

    service: Service
    server: GracefulServer
    url: str
    client: Client
    thread: threading.Thread


@contextmanager
def running(
    classifiers: dict[str, TailClassifier],
    *,
    limits: ServiceLimits | None = None,
    token: str | None = None,
    read_only: bool = False,
    drain_seconds: float = 0.2,
) -> Iterator[Live]:
    """Run a service until the block ends."""
    served = Classifiers()
    for name, classifier in classifiers.items():
        served.add(name, classifier)
    service = Service(served, limits, read_only=read_only)
    app = make_app(service, Access.at("127.0.0.1", token=token))
    server = make_server(app, "127.0.0.1", 0, drain_seconds=drain_seconds)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    try:
        with Client(url, token=token, retries=0) as client:
            yield Live(service, server, url, client, thread)
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()
