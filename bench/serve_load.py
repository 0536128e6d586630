"""Load test of `unitail serve`: requests per second, latencies, memory and overload.

    python bench/serve_load.py --out results/serve_load.md

By default, five rounds of 10 s for each line, several times what an image waits on 64 connections,
then ten minutes of memory on 1, 8 and 64 connections, and overload: about 25 minutes.

A server runs in its own process and the clients in this one, on the same cores. Each round calls
the bare classifier in a loop, one item at a time, then the server over 1, 8 and 64 connections that
each wait for their response before the next request. All return the same: probabilities, a set and
novelty. Ratios are relative to the bare classifier of the same round; intervals (95 %) are
Student's t over rounds. CPU time is that of the server with its decoders, or of the loop; it
depends less on other load. Vectors are 384 wide, of 5 classes with 5 examples; images are JPEG
files of 320 x 240 pixels, encoded by EfficientNet-Lite0, of 3 classes with 4 examples.
"""

import argparse
import itertools
import os
import re
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from measuring.page import Page
from measuring.server_load import (
    Load,
    Server,
    Work,
    images,
    load_bare,
    load_server,
    server,
    vectors,
)
from scipy import stats

from unitail.wording import numbered

CONNECTIONS = (1, 8, 64)


def interval(values: list[float]) -> str:
    """Format a mean with its 95 % interval over rounds."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return f"{mean:.2f}"
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean:.2f} ± {half:.2f}"


def measure_rates(
    page: Page,
    server: Server,
    works: list[Work],
    *,
    connections: Sequence[int],
    rounds: int,
    seconds: float,
) -> None:
    """Fill the table of rates and latencies."""
    columns = ("answers / s", "ratio to bare", "p50 ms", "p99 ms", "CPU ms an answer")
    page.table(("asked", "how", *columns, "not answered"))
    for work in works:
        loads: dict[str, list[Load]] = {}
        work.bare(0)
        load_server(server, work, 8, min(1.0, seconds))
        for _ in range(rounds):
            loads.setdefault("bare, in a loop", []).append(load_bare(work, seconds))
            for count in connections:
                name = f"served, {count} connection{'s' * (count > 1)}"
                loads.setdefault(name, []).append(load_server(server, work, count, seconds))
        bare = [load.rate for load in loads["bare, in a loop"]]
        for name, group in loads.items():
            both = Load(1.0, [t for load in group for t in load.latencies])
            failed = sum(sum(load.statuses.values()) - load.statuses[200] for load in group)
            ratios = [load.rate / rate for load, rate in zip(group, bare, strict=True)]
            rate = interval([load.rate for load in group])
            times = (f"{both.quantile(0.5):.0f}", f"{both.quantile(0.99):.0f}")
            cpu = interval([load.cpu_each for load in group])
            page.row(work.name, name, rate, interval(ratios), *times, cpu, failed)


def memory_of(port: int) -> float:
    """Return the MiB that the server reports to use."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
        text = reply.read().decode()
    value = re.search(r"^process_resident_memory_bytes (\S+)", text, re.MULTILINE)
    assert value is not None
    return float(value[1]) / 2**20


def measure_memory(
    page: Page, server: Server, works: list[Work], seconds: float, pause: float
) -> None:
    """Measure memory under 1, 8 and 64 connections, with vectors and images in turn."""
    samples, answered, start = [memory_of(server.port)], 0, time.monotonic()
    minutes = [0.0]
    turns = [(count, work) for count in CONNECTIONS for work in works]
    piece = max(1.0, seconds / (4 * len(turns)))
    for count, work in itertools.cycle(turns):
        load = load_server(server, work, count, piece, pause)
        answered += load.statuses[200]
        samples.append(memory_of(server.port))
        minutes.append((time.monotonic() - start) / 60)
        if minutes[-1] * 60 >= seconds:  # pieces of a busy machine take longer
            break
    first = next(number for number, each in enumerate(minutes) if each >= minutes[-1] / 4)
    first = min(first, len(minutes) - 2)  # a single piece may have taken all the time
    later = samples[first:]
    slope = float(np.polyfit(minutes[first:], later, 1)[0])
    page.text(
        f"Memory over {minutes[-1]:.1f} minutes of 1, 8 and 64 connections in turn"
        f"{f' with pauses of {pause:g} s' if pause else ''},"
        " vectors and images,"
        f" {answered:,} answers: {samples[0]:.0f} MiB at the start, {later[0]:.0f} after a quarter"
        f" of the time, {samples[-1]:.0f} at the end, at most {max(samples):.0f};"
        f" over the last three quarters {slope:+.2f} MiB a minute."
    )


def measure_overload(page: Page, server: Server, work: Work, limit: int, seconds: float) -> None:
    """Measure how a server with a small limit responds to 64 connections."""
    before = load_server(server, work, 1, seconds)
    over = load_server(server, work, 64, seconds)
    after = load_server(server, work, 1, seconds)
    other = sum(over.statuses.values()) - over.statuses[200] - over.statuses[503]
    page.text(
        f"Overload: a server that takes on {limit} requests at a time, asked over 64 connections,"
        f" answered {over.statuses[200]:,} and sent {over.statuses[503]:,} away with 503 and"
        f" Retry-After; all other statuses: {other}."
        f" p99 of the answers: {over.quantile(0.99):.0f} ms. One connection before:"
        f" p50 {before.quantile(0.5):.0f} ms; right afterwards: {after.quantile(0.5):.0f} ms,"
        f" {sum(after.statuses.values()) - after.statuses[200]} not answered."
    )


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="0 measures memory alone")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load in a round")
    parser.add_argument("--memory-seconds", type=float, default=600.0, help="0 is none")
    parser.add_argument("--pause", type=float, default=0.0, help="of connections, for memory")
    parser.add_argument("--kinds", nargs="+", default=["vectors", "images"])
    parser.add_argument("--connections", type=int, nargs="+", default=CONNECTIONS)
    parser.add_argument("--max-requests", type=int, default=64, help="that the server takes on")
    parser.add_argument("--overload", type=int, default=8, help="the same, of the one overloaded")
    parser.add_argument("--threads", type=int, default=1, help="of torch, in server and loop")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    os.environ["OMP_NUM_THREADS"] = str(args.threads)  # of the server, which inherits it
    about = (
        f"Server and clients on the same {os.cpu_count()} cores, torch on"
        f" {numbered(args.threads, 'thread')} in the server and in the loop; load of the machine at"
        f" the start {os.getloadavg()[0]:.1f}."
    )
    if args.rounds:
        about += f" {numbered(args.rounds, 'round')} of {args.seconds:g} s for each line."
    page = Page(args.out, "What `unitail serve` carries", about)
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / kind for kind in args.kinds]
        makers = {"vectors": vectors, "images": images}
        works = [makers[folder.name](folder) for folder in folders]
        rates = {key: getattr(args, key) for key in ("connections", "rounds", "seconds")}
        with server(folders, "--max-requests", str(args.max_requests)) as asked:
            if args.rounds:
                measure_rates(page, asked, works, **rates)
            if args.memory_seconds:
                measure_memory(page, asked, works, args.memory_seconds, args.pause)
            if not args.rounds:
                return
            if args.max_requests == args.overload:
                measure_overload(page, asked, works[0], args.overload, args.seconds)
                return
        with server(folders, "--max-requests", str(args.overload)) as asked:
            measure_overload(page, asked, works[0], args.overload, args.seconds)


if __name__ == "__main__":
    main()
