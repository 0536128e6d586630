"""Check that memory and open files stay flat over many rounds of work.

    python bench/reliability/soak.py --seconds 600 --out results/reliability/soak.md

Each round encodes sounds through the cache, fits, predicts, adds and removes examples, makes
prediction sets, saves and loads, and runs `unitail predict` on a table. After the first tenth of
the time, in which caches and pools fill, memory may grow by at most 1 MiB per 100 rounds, by a
linear fit through all measurements, and the number of open files must not grow. The command writes
to one stream: click keeps a copy of every stream that errors were written to, so a test runner that
creates new ones for each command would grow by 1.5 KiB per round.
"""

import argparse
import gc
import os
import random
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
from campaign.page import Page
from campaign.seed_inputs import Seeds, preload

from unitail.cli.main import app
from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoding import encode_items
from unitail.encoders.registry import make_encoder
from unitail.estimator.classifier import TailClassifier

MAX_GROWTH = 1.0
"""Largest growth in MiB per 100 rounds."""
NOWHERE = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
SOUNDS = [(np.sin(np.arange(1600) * pitch), 16_000) for pitch in (0.1, 0.2, 0.5, 0.6)]
"""Two low and two high sounds, with their sample rate."""


def resident() -> float:
    """Return the memory of this process, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def open_files() -> int:
    """Count the open files of this process."""
    return len(os.listdir("/proc/self/fd"))


def work(seeds: Seeds, root: Path, number: int) -> None:
    """Run one round."""
    generator, rng = random.Random(number), np.random.default_rng(number)
    encoder = make_encoder("log-mel", device="cpu")
    cache = FeatureCache(root / "cache", limit_bytes=2**20)
    labels = [*"aabb"]
    noise = [(rng.normal(size=800), 16_000) for _ in range(2)]
    vectors = encode_items(encoder, [*SOUNDS, *noise], cache=cache).features
    classifier = TailClassifier(random_state=0, device="cpu").fit(vectors[:4], labels)
    classifier.add(vectors[-1:], [generator.choice(labels)])
    classifier.remove([generator.randrange(len(labels))])
    before = classifier.predict_proba(vectors)
    classifier.predict_set(vectors)
    classifier.novelty(vectors)
    loaded = TailClassifier.load(classifier.save(root / "saved"))
    assert np.array_equal(loaded.predict_proba(vectors), before)
    table = str(seeds.folder / generator.choice(["table.csv", "table.jsonl", "table.parquet"]))
    arguments = ["predict", table, table, "--out", str(root / "out.csv"), "--device", "cpu"]
    with redirect_stdout(NOWHERE), redirect_stderr(NOWHERE):
        app(arguments, standalone_mode=False)


def main() -> None:
    """Run rounds for a while, measure now and then, and write a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    preload()
    rows: list[tuple[float, int, float, int]] = []
    with tempfile.TemporaryDirectory() as name:
        os.environ["UNITAIL_CACHE"] = f"{name}/own-cache"
        seeds = Seeds.make(Path(name) / "seeds", "tables")
        started, number = time.monotonic(), 0
        while (spent := time.monotonic() - started) < args.seconds or len(rows) < 4:
            work(seeds, Path(name), number)
            number += 1
            if spent >= len(rows) * args.seconds / 60:
                gc.collect()
                rows.append((spent, number, resident(), open_files()))
    settled = [row for row in rows if row[0] >= args.seconds / 10][:-1] or rows
    rounds, memory = (np.array([row[place] for row in settled]) for place in (1, 2))
    growth = 100 * float(np.polyfit(rounds, memory, 1)[0]) if len(settled) > 2 else 0.0
    page = Page(args.out, "Soak", f"{number:,} rounds in {args.seconds:.0f} seconds.")
    page.table(["seconds", "rounds", "memory, MiB", "open files"])
    for row in rows[:: max(1, len(rows) // 12)]:
        page.row(f"{row[0]:.0f}", row[1], f"{row[2]:.1f}", row[3])
    page.text(
        f"Memory grew by {growth:.2f} MiB for every 100 rounds after the first tenth (promised: at"
        f" most {MAX_GROWTH:g}), open files by {settled[-1][3] - settled[0][3]} (promised: 0)."
    )
    flat = growth <= MAX_GROWTH and settled[-1][3] <= settled[0][3]
    raise SystemExit(0 if flat else 1)


if __name__ == "__main__":
    main()
