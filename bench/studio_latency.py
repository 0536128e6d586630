"""Time until new predictions after a label: 2,000 items of 20 classes in a studio.

    python bench/studio_latency.py --banks BANKS --labels 40 100 200 500 1000 1500 \
        --table-labels 40 200 500 --out results/studio_latency.md

Every item is a row of a bank, so that only the studio is measured: the transaction, the fit, the
predictions of the items on the screen, then those of all items. One label is changed at a time, or
one more item is labelled. Free cores are needed: beside other work, times say nothing.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring.page import Page
from measuring.timing import device_name
from numpy.typing import NDArray

from unitail.banks.bank import FeatureBank, named_banks
from unitail.encoders.encoder import Encoder, Modality
from unitail.estimator.classifier import TailClassifier
from unitail.studio.background import limit_numpy_threads
from unitail.studio.catalogue import Catalogue
from unitail.studio.fitted import MAX_IMMEDIATE
from unitail.studio.schema import database_of
from unitail.studio.state import Answered
from unitail.studio.store import Store
from unitail.studio.studio import Studio

COLUMNS = ("screen", "all", "screen, CPU", "all, CPU", "novelty, CPU", "pool, CPU")
SCREEN = 60
"""Number of items on the screen."""


class RowOf(Encoder[int]):
    """Encodes a text, the number of a row, as that row of the bank."""

    modality = Modality.TEXT

    def __init__(self, rows: NDArray[np.float32]) -> None:
        super().__init__(name="rows", width=rows.shape[1], fingerprint="rows", batch_size=512)
        self._rows = rows

    def read(self, item: object) -> int:
        """Parse the number."""
        return int(str(item).split()[1])

    def embed(self, batch: Sequence[int]) -> NDArray[np.float32]:
        """Return the rows."""
        return self._rows[list(batch)]


def choose_rows(bank: FeatureBank, items: int, ways: int) -> tuple[Any, NDArray[np.int64]]:
    """Take equally many rows of the first classes, in random order.

    Where a class has fewer, its rows come again, moved by a tenth of their spread: how long answers
    take depends on sizes alone.
    """
    own = [np.flatnonzero(bank.class_indices == each) for each in range(ways)]
    generator = np.random.default_rng(0)
    places = generator.permutation(np.concatenate([np.resize(o, items // ways) for o in own]))
    rows = np.asarray(bank.features[places], np.float32)
    again = np.ones(len(rows), dtype=bool)
    again[np.unique(places, return_index=True)[1]] = False
    moves = generator.standard_normal(rows[again].shape).astype(np.float32)
    rows[again] += 0.1 * rows.std() * moves
    return rows, bank.class_indices[places]


def measure(
    studio: Studio, repeats: int, items: Sequence[int], classes: Sequence[int]
) -> dict[str, list[float]]:
    """Label items one by one, and measure wall and CPU seconds until predictions arrive."""
    notified_at: list[tuple[float, float]] = []
    seen_at: list[tuple[float, float]] = []
    count = len(studio.catalogue)
    screen = list(range(count - SCREEN, count))
    labelled = {*studio.labels.labelled().places, *items[: repeats + 1]}

    def note(answered: Answered) -> None:
        if labelled.issuperset(answered.places.tolist()):
            return
        notified_at.append((time.perf_counter(), time.process_time()))
        if screen[0] in answered.places:
            seen_at.append(notified_at[-1])

    studio.answerer._on_answers = note
    times: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for number in range(repeats + 1):
        place, class_id = items[number], classes[number]
        notified_at.clear()
        seen_at.clear()
        start, cpu = time.perf_counter(), time.process_time()
        versions = {place: studio.labels.row(place).version}
        studio.label({place: class_id}, versions, author="", looked_at=screen)
        studio.answerer.answer_all()
        if number:  # the first one does not count
            (first, first_cpu), (last, last_cpu) = seen_at[0], max(notified_at)
            walls, cpus = (first - start, last - start), (first_cpu - cpu, last_cpu - cpu)
            later = time.process_time()
            studio.answerer.refine()
            pooled = time.process_time() - later
            for name, seconds in zip(COLUMNS, (*walls, *cpus, later - cpu, pooled), strict=True):
                times[name].append(seconds)
    return times


def joint_seconds(rows: NDArray[np.float32], labels: NDArray[np.int64], count: int) -> float:
    """Return the CPU seconds of predicting all items jointly."""
    classifier = TailClassifier(
        device="cpu", scale="none", precision="single", visibility="joint", random_state=0
    )
    start = time.process_time()
    classifier.fit(rows[:count], labels[:count]).predict_proba(rows)
    return time.process_time() - start


def with_sizes(about: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options for the studio's sizes."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--bank", default="efflite0/plantvillage")
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--ways", type=int, default=20)
    parser.add_argument("--labels", type=int, nargs="+", default=[40, 100, 200])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    return parser


def read_items(args: argparse.Namespace) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return vectors and classes of the items that the options specify."""
    bank = FeatureBank.open(named_banks(args.banks)[args.bank])
    return choose_rows(bank, args.items, args.ways)


def main() -> None:
    """Measure and write the table."""
    parser = with_sizes(__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--table-labels", type=int, nargs="*", default=[])
    parser.add_argument("--columns", type=int, default=20, help="of the table")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    limit_numpy_threads()
    rows, truths = read_items(args)
    page = Page(
        args.out,
        "New answers in the studio",
        f"{len(rows):,} items of {args.ways} classes, {rows.shape[1]} wide, {args.bank};"
        f" {device_name(torch.device('cpu'))}. After one label is changed, or one more item is"
        " labelled, in ms, the median of"
        f" {args.repeats} and the fastest: until the {SCREEN} items on the screen are answered,"
        " and until all are that have no label; and CPU time, of all cores together, which depends"
        " less on what else the machine does; with *novelty*, that is told last; *pool*: to answer"
        " all again with 200 items that have no label, once nobody changes anything."
        " *Joint*: the CPU time of one joint answer of all. With more than"
        f" {MAX_IMMEDIATE} labels only *pool* reads all of them. *Table*: rows of {args.columns}"
        " numbers instead of vectors.",
        BANKS=args.banks,
    )
    page.table(["labels", "then", *COLUMNS, "joint, CPU"])
    for count in args.labels:
        joint = f"{1000 * joint_seconds(rows, truths, count):.0f}"
        with tempfile.TemporaryDirectory() as folder:
            studio = labelled_studio(Path(folder) / "items.csv", rows, truths[:count])
            write_rows(page, studio, args.repeats, count, "", joint)
    for count in args.table_labels:
        with tempfile.TemporaryDirectory() as folder:
            numbers = rows[:, : args.columns]
            studio = labelled_studio(Path(folder) / "t.csv", numbers, truths[:count], is_table=True)
            write_rows(page, studio, args.repeats, count, "table, ", "")


def write_rows(page: Page, studio: Studio, repeats: int, count: int, what: str, joint: str) -> None:
    """Measure a studio with this many labels, write its two rows, and stop it."""
    ids = [row.id for row in studio.labels.classes()]
    own = [ids.index(studio.labels.row(place).class_id or 0) for place in range(count)]
    moved = [ids[(each + 1) % len(ids)] for each in own]
    more = range(count, len(studio.catalogue) - SCREEN)
    for name, items in (("one changed", range(count)), ("one more", more)):
        times = measure(studio, repeats, items, moved)
        page.row(count, f"{what}{name}", *map(told_in_ms, times.values()), joint)
    studio.stop()


def labelled_studio(
    table: Path,
    rows: NDArray[np.float32],
    truths: NDArray[np.int64],
    *,
    is_table: bool = False,
) -> Studio:
    """Open a studio in which the first rows are labelled, and predict all.

    The rows are what an encoder makes of each text; with `is_table` they are the table itself.
    """
    if is_table:
        header = ",".join(f"x{column}" for column in range(rows.shape[1]))
        np.savetxt(table, rows, "%.6g", delimiter=",", header=header, comments="")
    else:
        table.write_text("text\n" + "".join(f"item {n} of many\n" for n in range(len(rows))))
    store = Store(database_of(table, None))
    encoder = None if is_table else RowOf(rows)
    studio = Studio(Catalogue.read(table), store, encoder=encoder, device="cpu")
    studio.vectors.encode_all()
    keys = studio.catalogue.keys
    store.label_by_name({keys[place]: f"class {each}" for place, each in enumerate(truths)})
    studio.sync()
    studio.answerer.answer_all()
    return studio


def told_in_ms(seconds: Sequence[float]) -> str:
    """Format the median and the minimum of some times, in ms."""
    return f"{1000 * statistics.median(seconds):.0f} ({1000 * min(seconds):.0f})"


if __name__ == "__main__":
    main()
