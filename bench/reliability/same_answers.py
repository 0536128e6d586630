"""Measure how predictions depend on batches, order, dtype, threads and processes.

    python bench/reliability/same_answers.py --workers 2 --out results/reliability/same_answers.md

Random tasks of 2 to 6 classes and up to 40 columns, tables among them, are predicted in the default
way and in every other way of the list; a row has the largest difference between two probabilities
over all tasks, next to the promised tolerance. `--device cuda` adds a row for predictions of that
device; `--only WORDS` keeps the rows whose names contain one of these words.
"""

import argparse
import json
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from campaign.forks import forked
from campaign.page import Page
from campaign.seed_inputs import preload
from campaign.shards import Shard, Workers
from numpy.typing import NDArray

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoding import encode_items
from unitail.encoders.registry import make_encoder
from unitail.estimator.classifier import TailClassifier

ROUNDING = 1e-9
"""Tolerance of probabilities in double precision, where sums change their order."""
SINGLE = 1e-4
"""Tolerance of probabilities in single precision."""
SHARD_SIZE = 20
"""Number of tasks per process."""
PLAIN: dict[str, Any] = {"random_state": 0, "device": "cpu"}


@dataclass(frozen=True, eq=False)
class Task:
    """Labelled rows and queries."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    asked: NDArray[np.float64]
    seed: int


def tasks(numbers: range, seed: int) -> Iterator[Task]:
    """Draw tasks: blobs, some with columns of very different units, as tables have."""
    for number in numbers:
        rng = np.random.default_rng([seed, number])
        ways, shots, width = rng.integers(2, 7), rng.integers(1, 7), rng.integers(1, 41)
        units = 10.0 ** rng.integers(-4, 5, width) if rng.random() < 0.3 else np.ones(width)
        means = 2 * rng.normal(size=(ways, width))
        y = np.repeat(np.arange(ways), shots)
        x = (means[y] + rng.normal(size=(len(y), width))) * units
        queries = (means[rng.integers(0, ways, 6)] + rng.normal(size=(6, width))) * units
        # In single precision, so that both dtypes hold the same numbers.
        yield Task(x.astype(np.float32).astype(np.float64), y,
                   queries.astype(np.float32).astype(np.float64), number)  # fmt: skip


def fitted(task: Task, **options: Any) -> TailClassifier:  # noqa: ANN401
    """Fit the default classifier."""
    return TailClassifier(**{**PLAIN, **options}).fit(task.x, task.y)


def _order_of_queries(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    order = np.random.default_rng(task.seed).permutation(len(task.asked))
    answers = np.empty((len(order), len(plain.classes_)))
    answers[order] = plain.predict_proba(task.asked[order])
    return answers


def _order_of_examples(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    order = np.random.default_rng(task.seed).permutation(len(task.y))
    other = TailClassifier(**PLAIN).fit(task.x[order], task.y[order])
    return other.predict_proba(task.asked)


def _one_by_one(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    return np.concatenate([plain.predict_proba(row[None]) for row in task.asked])


def _chunks(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    return fitted(task, chunk_size=2).predict_proba(task.asked)


def _float32(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    other = TailClassifier(**PLAIN).fit(task.x.astype(np.float32), task.y)
    return other.predict_proba(task.asked.astype(np.float32))


def _byte_order(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    other = TailClassifier(**PLAIN).fit(task.x.astype(">f8"), task.y.astype(">i8"))
    return other.predict_proba(task.asked.astype(">f4"))


def _memory_order(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    other = TailClassifier(**PLAIN).fit(np.asfortranarray(task.x), task.y)
    return other.predict_proba(task.asked[::-1])[::-1]


def _single(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    return fitted(task, precision="single").predict_proba(task.asked)


def _threads(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    torch.set_num_threads(2)
    try:
        return fitted(task).predict_proba(task.asked)
    finally:
        torch.set_num_threads(1)


def _saved(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    with tempfile.TemporaryDirectory() as folder:
        plain.save(Path(folder) / "saved", calibrate=False)
        return TailClassifier.load(Path(folder) / "saved").predict_proba(task.asked)


def _pickled(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    return pickle.loads(pickle.dumps(plain)).predict_proba(task.asked)


def _added(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    """Add the examples in two steps; the first has one of every class."""
    first = np.unique(task.y, return_index=True)[1]
    remaining = np.setdiff1d(np.arange(len(task.y)), first)
    other = TailClassifier(**PLAIN, scale="none").fit(task.x[first], task.y[first])
    other = other.add(task.x[remaining], task.y[remaining]) if len(remaining) else other
    order = np.concatenate([first, remaining])
    same = TailClassifier(**PLAIN, scale="none").fit(task.x[order], task.y[order])
    return other.predict_proba(task.asked) - same.predict_proba(task.asked)


ADDED, PROCESS, CACHED = "examples added later", "another process", "sounds through the cache"
Answers = NDArray[np.float64]
Way = Callable[[Task, TailClassifier], Any]
WAYS: dict[str, tuple[Way, float]] = {
    "the order of questions": (_order_of_queries, ROUNDING),
    "one question at a time": (_one_by_one, ROUNDING),
    "chunks of two": (_chunks, ROUNDING),
    "the order of examples": (_order_of_examples, ROUNDING),
    "float32 in place of float64, the same numbers": (_float32, 0.0),
    "the other byte order": (_byte_order, 0.0),
    "columns before rows, negative strides": (_memory_order, ROUNDING),
    "two threads": (_threads, ROUNDING),
    "saved and loaded": (_saved, 0.0),
    "pickled": (_pickled, 0.0),
    ADDED: (_added, ROUNDING),
    "single precision": (_single, SINGLE),
}


def in_another_process(chosen: Sequence[Task], plain: Sequence[Answers], place: Path) -> float:
    """Predict tasks in another process; return the largest difference."""

    def work() -> None:
        answers = [fitted(task).predict_proba(task.asked).tolist() for task in chosen]
        (place / "answers.json").write_text(json.dumps(answers))

    assert forked(work, place / "other", seconds=600, memory=None).code == 0
    answers = json.loads((place / "answers.json").read_text())
    return max(float(np.abs(a - np.array(b)).max()) for a, b in zip(plain, answers, strict=True))


def with_cache(seed: int, place: Path) -> float:
    """Encode sounds without a cache, into an empty one and from a filled one; compare vectors."""
    encoder, rng = make_encoder("log-mel", device="cpu"), np.random.default_rng(seed)
    items = [(rng.normal(size=800 * rng.integers(1, 5)), 16_000) for _ in range(7)]
    cache, worst = FeatureCache(place / "cache"), 0.0
    for _ in range(2):  # others are in the cache by then
        some = [items[each] for each in rng.permutation(7)[: rng.integers(1, 8)]]
        plain = encode_items(encoder, some).features
        for _ in range(2):
            vectors = encode_items(encoder, some, cache=cache).features
            worst = max(worst, float(np.abs(vectors - plain).max()))
    return worst


def answer(numbers: range, args: argparse.Namespace, place: Path) -> dict[str, float]:
    """Predict some tasks in all ways; return the largest difference of each."""
    chosen = list(tasks(numbers, args.seed))
    classifiers = [fitted(task) for task in chosen]
    plain = [each.predict_proba(task.asked) for each, task in zip(classifiers, chosen, strict=True)]
    worst: dict[str, float] = {}
    for name in promises(args):
        if name == CACHED:
            worst[name] = max(with_cache(number, place) for number in numbers[::10])
        elif name == PROCESS:
            worst[name] = in_another_process(chosen, plain, place)
        elif name == args.device:
            others = [fitted(task, device=name).predict_proba(task.asked) for task in chosen]
            worst[name] = max(
                float(np.abs(o - p).max()) for o, p in zip(others, plain, strict=True)
            )
        else:
            worst[name] = max(
                _difference(name, task, each, answers)
                for task, each, answers in zip(chosen, classifiers, plain, strict=True)
            )
    return worst


def _difference(name: str, task: Task, classifier: TailClassifier, answers: Answers) -> float:
    other = WAYS[name][0](task, classifier)
    return float(np.abs(other if name == ADDED else other - answers).max())


def promises(args: argparse.Namespace) -> dict[str, float]:
    """Return the selected rows, with the promised tolerance of each."""
    promised = {name: tolerance for name, (_, tolerance) in WAYS.items()}
    promised |= {PROCESS: 0.0, CACHED: 0.0}
    promised |= {args.device: ROUNDING} if args.device else {}
    only = args.only or [""]
    return {name: each for name, each in promised.items() if any(word in name for word in only)}


def main() -> None:
    """Predict all tasks in all ways, and write a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes that answer")
    parser.add_argument("--minutes", type=float, default=600, help="after which none is begun")
    parser.add_argument("--device", help="another device to compare with this processor")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORDS")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    preload()
    shards = {
        f"tasks {start}": range(start, min(start + SHARD_SIZE, args.tasks))
        for start in range(0, args.tasks, SHARD_SIZE)
    }
    settings = {name: getattr(args, name) for name in ("tasks", "seed", "device", "only")}
    with tempfile.TemporaryDirectory() as folder:
        workers = Workers(Path(folder), args.workers, args.out.with_suffix(".jsonl"), settings,
                    args.minutes)  # fmt: skip
        done = workers.run([
            Shard(name, partial(answer, numbers, args)) for name, numbers in shards.items()
        ])  # fmt: skip
    answered = sum(len(shards[name]) for name in done)
    page = Page(args.out, "Same answers", f"{answered:,} random tasks, answered in several ways.")
    page.table(["what differs", "largest difference of a probability", "promised"])
    broken = []
    for name, promised in promises(args).items():
        worst = max(record[name] for record in done.values())
        page.row(name, f"{worst:.1e}" if worst else "0",
                 f"{promised:g}" if promised else "0, to the last bit")  # fmt: skip
        broken += [name] if not worst <= promised else []
    page.text("The cache: a lot of seven sounds for every tenth task.")
    page.text(f"Promises broken: {', '.join(broken) or 'none'}.")
    if len(done) == len(shards):
        workers.finish()
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    main()
