"""How far answers depend on what should not matter: batches, order, dtype, threads, processes.

    python bench/reliability/same_answers.py --tasks 1000 --out results/reliability/same_answers.md

Random tasks of 2 to 6 classes and up to 40 columns, tables among them, are answered in the plain
way and in every other way of the list; a row has the largest difference between two probabilities
over all tasks, beside what is promised. `--device cuda` adds a row for answers of that device.
"""

import argparse
import json
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from campaign import Page, forked
from numpy.typing import NDArray
from seeds import Seeds, preload

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoding import encode_items
from unitail.encoders.registry import make_encoder
from unitail.estimator.classifier import TailClassifier

ROUNDING = 1e-9
"""Of probabilities in double precision, where sums are made in another order."""
SINGLE = 1e-3
"""Of probabilities in single precision."""


@dataclass(frozen=True, eq=False)
class Task:
    """Labelled rows and questions."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    asked: NDArray[np.float64]
    seed: int


def tasks(count: int, seed: int) -> Iterator[Task]:
    """Draw tasks: blobs, some with columns of very different units, as tables have."""
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        ways, shots, width = rng.integers(2, 7), rng.integers(1, 7), rng.integers(1, 41)
        units = 10.0 ** rng.integers(-4, 5, width) if rng.random() < 0.3 else np.ones(width)
        means = 2 * rng.normal(size=(ways, width))
        y = np.repeat(np.arange(ways), shots)
        x = (means[y] + rng.normal(size=(len(y), width))) * units
        asked = (means[rng.integers(0, ways, 6)] + rng.normal(size=(6, width))) * units
        # In single precision, so that both dtypes hold the same numbers.
        yield Task(x.astype(np.float32).astype(np.float64), y,
                   asked.astype(np.float32).astype(np.float64), number)  # fmt: skip


def fitted(task: Task, **options: Any) -> TailClassifier:  # noqa: ANN401
    """Fit the default classifier."""
    return TailClassifier(random_state=0, **options).fit(task.x, task.y)


def _order_of_queries(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    order = np.random.default_rng(task.seed).permutation(len(task.asked))
    answers = np.empty((len(order), len(plain.classes_)))
    answers[order] = plain.predict_proba(task.asked[order])
    return answers


def _order_of_examples(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    order = np.random.default_rng(task.seed).permutation(len(task.y))
    other = TailClassifier(random_state=0).fit(task.x[order], task.y[order])
    return other.predict_proba(task.asked)


def _one_by_one(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    return np.concatenate([plain.predict_proba(row[None]) for row in task.asked])


def _chunks(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    return fitted(task, chunk_size=2).predict_proba(task.asked)


def _float32(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    other = TailClassifier(random_state=0).fit(task.x.astype(np.float32), task.y)
    return other.predict_proba(task.asked.astype(np.float32))


def _byte_order(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    other = TailClassifier(random_state=0).fit(task.x.astype(">f8"), task.y.astype(">i8"))
    return other.predict_proba(task.asked.astype(">f4"))


def _memory_order(task: Task, plain: TailClassifier) -> Any:  # noqa: ANN401
    other = TailClassifier(random_state=0).fit(np.asfortranarray(task.x), task.y)
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
    """Learn the examples in two steps; every class has one in the first."""
    first = np.unique(task.y, return_index=True)[1]
    rest = np.setdiff1d(np.arange(len(task.y)), first)
    other = TailClassifier(random_state=0, scale="none").fit(task.x[first], task.y[first])
    other = other.add(task.x[rest], task.y[rest]) if len(rest) else other
    order = np.concatenate([first, rest])
    same = TailClassifier(random_state=0, scale="none").fit(task.x[order], task.y[order])
    return other.predict_proba(task.asked) - same.predict_proba(task.asked)


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
    "examples added later": (_added, ROUNDING),
    "single precision": (_single, SINGLE),
}


def in_processes(count: int, seed: int, root: Path) -> float:
    """Answer the tasks in two other processes; return the largest difference."""
    chosen = list(tasks(count, seed))
    worst = 0.0
    for shard in range(2):

        def work(shard: int = shard) -> None:
            answers = [fitted(task).predict_proba(task.asked).tolist() for task in chosen[shard::2]]
            (root / f"{shard}.json").write_text(json.dumps(answers))

        assert forked(work, root / "log", seconds=600, memory=None).code == 0
        answers = json.loads((root / f"{shard}.json").read_text())
        for task, answer in zip(chosen[shard::2], answers, strict=True):
            here = fitted(task).predict_proba(task.asked)
            worst = max(worst, float(np.abs(here - np.array(answer)).max()))
    return worst


def with_cache(count: int, seeds: Seeds, root: Path) -> float:
    """Encode sounds without a cache, into a cold and from a warm one; compare the vectors."""
    encoder, worst = make_encoder("log-mel"), 0.0
    files = sorted((seeds.folder / "sounds").rglob("*.wav"))
    rng = np.random.default_rng(0)
    for number in range(count):
        items = [files[place] for place in rng.permutation(len(files))[: rng.integers(1, 7)]]
        items += [(rng.normal(size=800), 16_000)]
        plain = encode_items(encoder, items).features
        cache = FeatureCache(root / f"cache{number % 7}")
        for _ in range(2):
            vectors = encode_items(encoder, items, cache=cache).features
            worst = max(worst, float(np.abs(vectors - plain).max()))
    return worst


def on_device(count: int, seed: int, device: str) -> float:
    """Answer the tasks on another device."""
    return max(
        float(np.abs(fitted(task, device=device).predict_proba(task.asked)
                     - fitted(task).predict_proba(task.asked)).max())
        for task in tasks(count, seed)
    )  # fmt: skip


def main() -> None:
    """Answer all tasks in all ways, and write a line of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60, help="after which no task is begun")
    parser.add_argument("--device", help="another device to compare with this processor")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    preload()
    worst = dict.fromkeys(WAYS, 0.0)
    begun, answered = time.monotonic(), 0
    for task in tasks(args.tasks, args.seed):
        if time.monotonic() - begun > 60 * args.minutes:
            break
        answered += 1
        plain = fitted(task)
        answers = plain.predict_proba(task.asked)
        for name, (way, _) in WAYS.items():
            other = way(task, plain)
            difference = other if name == "examples added later" else other - answers
            worst[name] = max(worst[name], float(np.abs(difference).max()))
    promised = {name: tolerance for name, (_, tolerance) in WAYS.items()}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ["UNITAIL_CACHE"] = f"{folder}/own"
        worst["two other processes"] = in_processes(answered // 10, args.seed, root)
        seeds = Seeds(root / "seeds")
        seeds.write_sounds()
        worst["vectors of sounds through the cache"] = with_cache(answered // 10, seeds, root)
    promised |= {"two other processes": 0.0, "vectors of sounds through the cache": 0.0}
    if args.device:
        worst[args.device] = on_device(args.tasks, args.seed, args.device)
        promised[args.device] = SINGLE
    page = Page(args.out, "Same answers", f"{answered:,} random tasks, answered in several ways.")
    page.table(["what differs", "largest difference of a probability", "promised"])
    for name, difference in worst.items():
        page.row(name, f"{difference:.1e}" if difference else "0",
                 f"{promised[name]:g}" if promised[name] else "0, to the last bit")  # fmt: skip
    broken = [name for name in worst if worst[name] > promised[name]]
    page.text("Processes and the cache: every tenth of the tasks, and as many lots of sounds.")
    page.text(f"Promises broken: {', '.join(broken) or 'none'}.")
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    main()
