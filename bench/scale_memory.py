"""Memory of a large job against the number of its rows.

Generated texts are encoded by several workers with an encoder that takes no time; every number of
rows runs in its own process.

    python bench/scale_memory.py --out results/scale_out/memory.md
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
from measuring.page import Page

from unitail.engines.engine import Chunk, ChunkReport, Work
from unitail.engines.job import encode_rows
from unitail.engines.local import LocalEngine
from unitail.engines.rows import open_rows
from unitail.engines.storage import Storage
from unitail.inputs.items import ReadOptions
from unitail.workflows.encode_bank import encoder_for

NUMBERS = ("main", "worker", "rate", "busy")


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--encode", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.encode is not None:
        print(json.dumps(encode_texts(args.encode, args.workers)))
        return
    measure_memory(args.out, args.rows, args.workers)


class Watched:
    """Work that also reports its process's peak memory and CPU seconds."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def __call__(self, chunk: Chunk) -> ChunkReport:
        """Process a chunk and add memory and CPU time to its report."""
        busy = time.process_time()
        report = self.work(chunk)
        spent = time.process_time() - busy
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return replace(report, seconds={**report.seconds, "MiB": memory, "cpu": spent})


class Watching(LocalEngine):
    """Worker processes, with the largest memory of one of them and their CPU seconds."""

    memory, cpu = 0, 0.0

    def map(self, work: Work, chunks: Iterable[Chunk]) -> Iterator[ChunkReport]:
        """Process the chunks, and collect memory and CPU time from the reports."""
        for report in super().map(Watched(work), chunks):
            self.memory = max(self.memory, int(report.seconds["MiB"]))
            self.cpu += report.seconds["cpu"]
            yield report


def measure_memory(out: Path, sizes: Sequence[int], workers: int) -> None:
    """Encode tables of several sizes, each in its own process."""
    page = Page(
        out,
        "Memory of a large job against its rows",
        f"A Parquet file of made texts, an encoder of 16 numbers that takes no time; {workers}"
        " workers. Largest memory in MiB, of the process that shares out and of a worker.",
    )
    page.table(
        ["rows", "MiB, sharing out", "MiB, a worker", "rows / s", "rows / CPU s of a worker"]
    )
    for size in sizes:
        command = [sys.executable, __file__, "--out", "-", "--encode", str(size)]
        command += ["--workers", str(workers)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        measured = json.loads(result.stdout.splitlines()[-1])
        page.row(f"{size:,}", *(f"{measured[name]:,.0f}" for name in NUMBERS))


OWN = """
import numpy as np
from unitail import Encoder, Modality

class Lengths(Encoder):
    modality = Modality.TEXT

    def __init__(self):
        super().__init__(name="lengths", width=16, fingerprint="lengths", batch_size=256)

    def read(self, item):
        return str(item)

    def embed(self, batch):
        lengths = [[len(word) for word in (text.split() * 16)[:16]] for text in batch]
        return np.array(lengths, dtype=np.float32)
"""


def encode_texts(size: int, workers: int) -> dict[str, float]:
    """Encode a generated table; return memory and rates."""
    with tempfile.TemporaryDirectory() as folder:
        make_texts(Path(folder) / "rows.parquet", size)
        (Path(folder) / "own.py").write_text(OWN)
        name = f"{folder}/own.py:Lengths"
        rows = open_rows([f"{folder}/rows.parquet"], ReadOptions(content_column="text"))
        engine, encoder = Watching(workers), encoder_for(name, rows.reading.modality, "cpu")
        began = time.perf_counter()
        summary = encode_rows(engine, rows, encoder, Storage(f"{folder}/out"), made_by=name)
        assert summary.counts["vectors"] == size
        spent = time.perf_counter() - began
    main = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    busy = size / engine.cpu
    return {"main": main, "worker": engine.memory, "rate": size / spent, "busy": busy}


def make_texts(path: Path, size: int) -> None:
    """Write texts of a few words in batches."""
    schema = pyarrow.schema([("id", pyarrow.int64()), ("text", pyarrow.string())])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, size, 10_000):
            numbers = list(range(start, min(start + 10_000, size)))
            texts = [f"where is parcel {number} that I sent last week" for number in numbers]
            writer.write_table(pyarrow.table({"id": numbers, "text": texts}, schema=schema))


if __name__ == "__main__":
    main()
