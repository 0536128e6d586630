"""A server under load, and the bare classifier for comparison."""

import asyncio
import io
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from measuring.timing import wait_until
from unitail.client import Client
from unitail.estimator.classifier import TailClassifier

WIDTH, WAYS, SHOTS = 384, 5, 5


@dataclass
class Load:
    """Statistics of a load test, as measured by the clients."""

    seconds: float
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    cpu: float = 0.0
    """CPU seconds of the server or classifier."""

    @property
    def cpu_each(self) -> float:
        """Milliseconds of CPU time per answer."""
        return 1e3 * self.cpu / max(1, self.statuses[200])

    @property
    def rate(self) -> float:
        """Return the number of answers per second."""
        return self.statuses[200] / self.seconds

    def quantile(self, share: float) -> float:
        """Return a quantile of the latencies in milliseconds."""
        return 1e3 * float(np.quantile(self.latencies, share)) if self.latencies else float("nan")


@dataclass(frozen=True)
class Work:
    """One kind of request: bytes for the server, a call for the classifier."""

    name: str
    request: Callable[[int], bytes]
    bare: Callable[[int], object]


def picture(rng: np.random.Generator, colour: int) -> bytes:
    """Return a JPEG file of noise with a tint."""
    pixels = rng.integers(0, 120, (240, 320, 3), dtype=np.uint8)
    pixels[..., colour] += 100
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG")
    return buffer.getvalue()


def head(path: str, kind: str, body: bytes) -> bytes:
    """Return a complete HTTP request."""
    lines = (
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def fully(classifier: TailClassifier, items: Any) -> object:  # noqa: ANN401 - vectors or files
    """Return all results that the server returns by default."""
    log_proba = classifier.predict_log_proba(items)
    return classifier.predict_set(items, log_proba=log_proba), classifier.novelty(items)


def vectors(folder: Path) -> Work:
    """Fit a classifier of vectors, and save it."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(WAYS, WIDTH))
    labels = np.repeat(np.arange(WAYS), SHOTS)
    rows = means[labels] + rng.normal(size=(len(labels), WIDTH))
    queries = means[rng.integers(WAYS, size=100)] + rng.normal(size=(100, WIDTH))
    classifier = TailClassifier(device="cpu").fit(rows, labels)
    classifier.save(folder)
    bodies = [json.dumps({"vectors": [row.tolist()]}).encode() for row in queries]
    requests = [head("/v1/classifiers/vectors/predict", "application/json", b) for b in bodies]
    return Work(
        "vectors",
        lambda number: requests[number % len(requests)],
        lambda number: fully(classifier, queries[number % len(queries)][None]),
    )


def images(folder: Path) -> Work:
    """Fit a classifier of images, and save it."""
    rng = np.random.default_rng(0)
    examples = [picture(rng, colour) for colour in (0, 1, 2) for _ in range(4)]
    queries = [picture(rng, number % 3) for number in range(30)]
    classifier = TailClassifier(device="cpu", encoder="efficientnet-lite0", cache=False)
    classifier.fit(examples, np.repeat(["red", "green", "blue"], 4)).save(folder)
    start = b'--edge\r\nContent-Disposition: form-data; name="files"; filename="0"\r\n\r\n'
    bodies = [start + file + b"\r\n--edge--\r\n" for file in queries]
    path, kind = "/v1/classifiers/images/predict/files", "multipart/form-data; boundary=edge"
    requests = [head(path, kind, body) for body in bodies]

    def bare(number: int) -> object:
        by = classifier.kept_examples().encoder
        assert by is not None
        encoder = by.encoder  # type: ignore[union-attr]
        vector = encoder.embed([encoder.read(queries[number % len(queries)])])
        return fully(classifier.with_encoder(None), vector)

    return Work("images", lambda number: requests[number % len(requests)], bare)


@dataclass(frozen=True)
class Server:
    """A server in another process."""

    port: int
    pid: int

    @property
    def cpu(self) -> float:
        """CPU seconds used by the server and its decoders."""
        tick, own, seconds = os.sysconf("SC_CLK_TCK"), [self.pid], 0.0
        while own:
            pid = own.pop()
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            seconds += sum(map(int, fields[11:15])) / tick  # with children that have ended
            for task in Path(f"/proc/{pid}/task").iterdir():
                own.extend(map(int, (task / "children").read_text().split()))
        return seconds


@contextmanager
def server(folders: list[Path], *options: str) -> Iterator[Server]:
    """Run `unitail serve` in another process."""
    command = [sys.executable, "-m", "unitail", "serve", *map(str, folders), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--device", "cpu", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        matches = (re.search(r"http://127\.0\.0\.1:(\d+)", line) for line in lines)
        port = int(next(match for match in matches if match)[1])
        with Client(f"http://127.0.0.1:{port}") as client:
            wait_until(lambda: process.poll() is not None or client.ready(), "the server was ready")
        yield Server(port, process.pid)
    finally:
        process.terminate()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


async def connection(
    port: int, work: Work, load: Load, until: float, first: int, pause: float
) -> None:
    """Send requests on one connection until the time is over, with pauses."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = first
    while time.perf_counter() < until:
        start = time.perf_counter()
        writer.write(work.request(number))
        await writer.drain()
        header = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", header, re.IGNORECASE)
        assert length is not None
        await reader.readexactly(int(length[1]))
        status = int(header.split(b" ", 2)[1])
        load.statuses[status] += 1
        if status == 200:
            load.latencies.append(time.perf_counter() - start)
        else:
            await asyncio.sleep(0.05)
        await asyncio.sleep(max(0.0, min(pause, until - time.perf_counter())))
        number += 1
    writer.close()
    await writer.wait_closed()


def load_server(
    server: Server, work: Work, connections: int, seconds: float, pause: float = 0.0
) -> Load:
    """Send requests over several connections."""

    async def run() -> Load:
        start, cpu = time.perf_counter(), server.cpu
        load = Load(seconds)
        await asyncio.gather(
            *(
                connection(server.port, work, load, start + seconds, 7 * n, pause)
                for n in range(connections)
            )
        )
        load.seconds, load.cpu = time.perf_counter() - start, server.cpu - cpu
        return load

    return asyncio.run(run())


def load_bare(work: Work, seconds: float) -> Load:
    """Call the classifier in a loop."""
    load, start, cpu = Load(seconds), time.perf_counter(), time.process_time()
    while (now := time.perf_counter()) < start + seconds:
        work.bare(load.statuses[200])
        load.statuses[200] += 1
        load.latencies.append(time.perf_counter() - now)
    load.seconds, load.cpu = time.perf_counter() - start, time.process_time() - cpu
    return load
