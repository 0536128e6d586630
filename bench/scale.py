"""Memory and time at the scale of ImageNet: a bank of 1.3 million rows, and encoding.

The bank is a sparse file of zeros, since only reading is measured. The data set to encode consists
of short texts, with a narrow encoder that takes no time. Every row is measured in its own process;
memory is the peak, in MiB.

    python bench/scale.py --out results/scale.md
"""

import argparse
import csv
import hashlib
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measuring.page import Page
from numpy.typing import NDArray

from unitail.banks.bank import FeatureBank
from unitail.banks.manifest import (
    CLASSES_FILE,
    FEATURES_FILE,
    LABELS_FILE,
    MANIFEST_FILE,
    BankManifest,
)
from unitail.configuration import to_table
from unitail.datasets.catalogue import find_entry
from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Encoder, Modality
from unitail.evaluation.episodes import FixedEpisodes
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.processes import ProcessGroup
from unitail.workflows.prepare import encode_data_set, read_data_set

CLASSES, EPISODES = 1000, 200
Numbers = dict[str, float]


class Lengths(Encoder[str]):
    """Encodes a text as the lengths of its words."""

    modality = Modality.TEXT

    def __init__(self, width: int = 16) -> None:
        super().__init__(name="lengths", width=width, fingerprint=f"l{width}", batch_size=256)

    def read(self, item: object) -> str:
        """Return the text."""
        return str(item)

    def embed(self, batch: Sequence[str]) -> NDArray[np.float32]:
        """Return word lengths."""
        rows = np.zeros((len(batch), self.width), np.float32)
        for row, text in zip(rows, batch, strict=True):
            lengths = [len(word) for word in text.split()][: self.width]
            row[: len(lengths)] = lengths
        return rows


def write_sparse_bank(folder: Path, rows: int, width: int) -> None:
    """Write a bank whose features are a sparse file."""
    folder.mkdir(parents=True)
    labels = np.arange(rows) % CLASSES
    np.save(folder / LABELS_FILE, labels)
    header = {"descr": "<f2", "fortran_order": False, "shape": (rows, width)}
    with (folder / FEATURES_FILE).open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 2 * rows * width)
    (folder / CLASSES_FILE).write_text(json.dumps([f"class {n}" for n in range(CLASSES)]))
    manifest = BankManifest(
        name="zeros",
        encoder="none",
        rows=rows,
        feature_dim=width,
        labels_sha256=hashlib.sha256((folder / LABELS_FILE).read_bytes()).hexdigest(),
        features_sha256="not looked at",
    )
    (folder / MANIFEST_FILE).write_text(json.dumps(to_table(manifest)))


def open_and_sample(folder: Path) -> Numbers:
    """Open a bank and draw episodes from it."""
    before, start = peak(), time.perf_counter()
    bank = FeatureBank.open(folder)
    opened, opening = peak(), time.perf_counter() - start
    start = time.perf_counter()
    episodes = FixedEpisodes.of(bank, EvaluationProtocol(shots=5, episodes=EPISODES))
    drawn = sum(len(batch.hashes) for batch in episodes.batches())
    return {
        "before": before,
        "open": opened,
        "sampled": peak(),
        "own": own_memory(),
        "seconds to open": opening,
        "seconds for the episodes": time.perf_counter() - start,
        "episodes": drawn,
    }


def prepare(folder: Path, rows: int) -> Numbers:
    """Write a table of texts, read it as a data set, encode it and write its bank."""
    with (folder / "test.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "category"])
        writer.writerows([f"request number {n} of many", f"class {n % 77}"] for n in range(rows))
    entry, before, start = find_entry("banking77"), peak(), time.perf_counter()
    [prepared] = read_data_set(entry, folder, entry.split(), any_version=True)
    read = peak()
    made = encode_data_set(
        prepared,
        Lengths(),
        folder / "banks",
        cache=FeatureCache(folder / "cache"),
        processes=ProcessGroup(),
    )
    assert made is not None
    assert made.bank.num_rows == rows
    seconds = time.perf_counter() - start
    return {"before": before, "read": read, "encoded": peak(), "seconds": seconds}


def peak() -> float:
    """Return the peak memory of this process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def own_memory() -> float:
    """Return the anonymous memory of this process in MiB, without mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def alone(work: Callable[..., Numbers], *arguments: object) -> Numbers:
    """Run work in its own process."""
    context = multiprocessing.get_context("spawn")
    answers: Any = context.SimpleQueue()
    process = context.Process(target=_answer, args=(answers, work, arguments))
    process.start()
    process.join()  # the answer is short: it fits the pipe
    assert not answers.empty(), "the process ended early, see above"
    numbers: Numbers = answers.get()
    return numbers


def _answer(answers: Any, work: Callable[..., Numbers], arguments: tuple[object, ...]) -> None:  # noqa: ANN401
    answers.put(work(*arguments))


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[130_000, 1_300_000])
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--encode", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    page = Page(args.out, "Data as large as ImageNet", "Largest memory in MiB; one process each.")
    page.text(f"## A bank is opened, and {EPISODES} episodes (5-way 5-shot, 15 queries) are drawn")
    header = (
        *("rows x width", "file", "imports", "open", "episodes", "of that, no file's"),
        *("s to open", "s for episodes"),
    )
    page.table(header)
    for rows in args.rows:
        with tempfile.TemporaryDirectory() as place:
            write_sparse_bank(Path(place) / "bank", rows, args.width)
            measured = alone(open_and_sample, Path(place) / "bank")
        size = f"{2 * rows * args.width / 2**20:,.0f}"
        memory = [f"{measured[key]:,.0f}" for key in ("before", "open", "sampled", "own")]
        times = [f"{measured[key]:.1f}" for key in ("seconds to open", "seconds for the episodes")]
        page.row(f"{rows:,} x {args.width}", size, *memory, *times)
    page.text("## A data set of short texts is read and encoded, 16 numbers each")
    page.table(("rows", "imports", "read", "encoded and written", "seconds"))
    for rows in args.encode:
        with tempfile.TemporaryDirectory() as place:
            measured = alone(prepare, Path(place), rows)
        memory = [f"{measured[key]:,.0f}" for key in ("before", "read", "encoded")]
        page.row(f"{rows:,}", *memory, f"{measured['seconds']:.0f}")


if __name__ == "__main__":
    main()
