"""The default model isolated, with pools and joint, compared with logistic regression.

    python bench/pool_banks.py --banks BANKS --episodes 20 --out results/with_pool.md

Five classes, or all if a table has fewer; ten queries per class on average. The pool holds other
rows of these classes, on average as many of each as stated; larger pools contain smaller ones; a
table is used as far as its classes have enough rows. Every feature table contributes the same
number of episodes. Differences are paired and averaged over the tables of a data set first;
intervals are Student's over data sets. tiny_imagenet, whose held-out classes helped to choose the
default model, is left out. Results are stored in the folder --rows with the model's stamp: the
command resumes where it was stopped, and starts anew with another model.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas
import torch
from measuring.page import Page
from measuring.row_files import add_rows, read_rows
from torch import Tensor

from unitail.banks.bank import FeatureBank, named_banks
from unitail.baselines.linear_probe import LinearProbe, ProbeVariant
from unitail.framework.episode import Episode, Query, Support
from unitail.framework.statistics import MeanInterval
from unitail.framework.task import accuracy
from unitail.learners.fingerprints import default_stamp
from unitail.learners.pretrained import load_default
from unitail.nn.episode_model import NoDraw, Visibility
from unitail.randomness import stream
from unitail.tasks.bank_episodes import BankEpisodes
from unitail.tasks.batches import EpisodeRanges

QUERIES, WAYS = 10, 5
POOLS = (10, 30, 60, 100)
LEFT_OUT = "tiny_imagenet"
LINEAR, ISOLATED, JOINT = "logistic regression", "each row by itself", "joint"
GROUPS = {
    "efflite0": "images",
    "sscd_distilled": "images",
    "resnet50": "images, unseen encoder",
    "glove100": "text",
    "minilm": "text",
    "whisper_tiny": "audio",
    "yamnet": "audio",
}
"""Groups of banks, by encoder."""


def pooled(size: int) -> str:
    """Return the name of predictions with a pool."""
    return f"pool of {size} a class"


def tables(folder: Path) -> Iterator[tuple[FeatureBank, str]]:
    """Open the banks, each with its group."""
    for path in named_banks(folder).values():
        bank = FeatureBank.open(path)
        if bank.name != LEFT_OUT:
            yield bank, GROUPS.get(bank.encoder, bank.encoder)


def split(episode: Episode, count: int) -> tuple[Episode, Tensor]:
    """Keep the first queries, which are in random order; the others form a pool (B, rows, d_T)."""
    query = episode.query
    assert query.class_indices is not None, "sources sample labelled queries"
    first_queries = Query(
        features=query.features[:, :count], class_indices=query.class_indices[:, :count]
    )
    return Episode(support=episode.support, query=first_queries), query.features[:, count:]


def subset(episode: Episode, pool: Tensor, rows: slice) -> tuple[Episode, Tensor]:
    """Select some episodes of a batch."""
    support, query = episode.support, episode.query
    assert query.class_indices is not None, "sources sample labelled queries"
    some = Support(
        features=support.features[rows],
        class_indices=support.class_indices[rows],
        ways=support.ways,
    )
    asked = Query(features=query.features[rows], class_indices=query.class_indices[rows])
    return Episode(support=some, query=asked), pool[rows]


@torch.no_grad()
def answers(episode: Episode, pool: Tensor, sizes: Sequence[int]) -> dict[str, Tensor]:
    """Predict with all methods, on the device of the episodes."""
    model = load_default(pool.device)
    support, draw = episode.support, NoDraw()
    by_pool = {
        LINEAR: LinearProbe(variant=ProbeVariant.SHRUNK).infer(support, episode.query.features),
        ISOLATED: model(episode, draw, Visibility.ISOLATED),
        JOINT: model(episode, draw, Visibility.JOINT),
    }
    for size in sizes:
        rows = pool[:, : size * support.ways]
        by_pool[pooled(size)] = model(episode, draw, Visibility.ISOLATED, rows)
    return by_pool


def measure(bank: FeatureBank, shots: int, args: argparse.Namespace) -> dict[str, float]:
    """Return the mean accuracy (%) of each method."""
    sizes = [size for size in args.pools if (bank.class_sizes >= shots + QUERIES + size).sum() >= 2]
    if not sizes:
        return {}
    largest = max(sizes)
    ways = min(WAYS, int((bank.class_sizes >= shots + QUERIES + largest).sum()))
    ranges = EpisodeRanges.fixed(
        episodes=args.episodes, ways=ways, shots=shots, queries=QUERIES + largest
    )
    names = (bank.full_name, shots)
    batch = BankEpisodes([bank]).choose_batch(ranges, stream(0, *names, "plan"))
    episode, pool = split(batch.sample(stream(0, *names)), ways * QUERIES)
    right: dict[str, float] = {}
    for start in range(0, args.episodes, args.batch):
        some, rows = subset(episode, pool, slice(start, start + args.batch))
        asked = some.to(torch.device(args.device))
        truth = some.query.class_indices
        assert truth is not None, "sources sample labelled queries"
        for name, scores in answers(asked, rows.to(args.device), sizes).items():
            own = accuracy(scores.float().cpu().log_softmax(dim=-1), truth)
            right[name] = right.get(name, 0.0) + 100 * float(own.sum()) / args.episodes
    return right


def lead(rows: pandas.DataFrame, first: str, other: str) -> pandas.Series:
    """Return differences by data set, averaged over its tables."""
    both = rows.dropna(subset=[first, other])
    return (both[first] - both[other]).groupby(both["data_set"]).mean()


def cell(gains: pandas.Series) -> str:
    """Format a mean with its interval, the number of data sets and the worst."""
    if gains.empty:
        return ""
    if len(gains) < 2:
        return f"{gains.mean():+.2f} (1)"
    interval = MeanInterval.of(gains.to_numpy())
    return (
        f"{interval.mean:+.2f} ± {interval.half_width:.2f}"
        f" ({len(gains)}; {gains.idxmin()} {gains.min():+.1f})"
    )


def report(page: Page, rows: pandas.DataFrame, args: argparse.Namespace) -> None:
    """Write a table of all data sets, and one by group."""
    for shots in args.shots:
        own = rows[rows["shots"] == shots]
        if own.empty:
            continue
        names = [each for each in (JOINT, *map(pooled, args.pools)) if each in own]
        page.text(f"## Labels a class: {shots}; data sets: {own['data_set'].nunique()}")
        page.table(["", "tables", "accuracy, %", *_heads(LINEAR, ISOLATED, JOINT)])
        for name in (LINEAR, ISOLATED, *names):
            some = own.dropna(subset=[name])
            mean = some.groupby("data_set")[name].mean().mean()
            cells = ["" if name == each else cell(lead(own, name, each)) for each in
                     (LINEAR, ISOLATED, JOINT)]  # fmt: skip
            page.row(name, len(some), f"{mean:.1f}", *cells)
        page.text("Minus each row by itself, by groups:")
        groups = list(dict.fromkeys(own["group"]))
        page.table(["", *groups])
        for name in names:
            cells = [cell(lead(own[own["group"] == each], name, ISOLATED)) for each in groups]
            page.row(name, *cells)


def _heads(*names: str) -> list[str]:
    return [f"minus {name} (data sets; worst)" for name in names]


def keep(folder: Path | None, row: dict[str, object]) -> None:
    """Print a measured row, and store it if there is a folder for it."""
    print(row["table"], row["shots"], row["right"], flush=True)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        with add_rows(folder / f"rows_pool_{row['shots']}.jsonl") as file:
            file.write(json.dumps(row) + "\n")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--pools", type=int, nargs="+", default=list(POOLS))
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--batch", type=int, default=25, help="episodes at a time")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=Path, help="a folder that keeps what is measured")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    facts = {"model": default_stamp(), "episodes": args.episodes, "pools": list(args.pools)}
    stored = read_rows(args.rows, default_stamp()) if args.rows else []
    stored = [row for row in stored if facts.items() <= row.items()]
    accuracies = {(row["table"], row["shots"]): row["right"] for row in stored}
    rows = []
    for shots in args.shots:
        for bank, group in tables(args.banks):
            right = accuracies.get((bank.full_name, shots))
            if right is None:
                right = measure(bank, shots, args)
                keep(args.rows, {**facts, "table": bank.full_name, "shots": shots, "right": right})
            if right:
                rows.append({"data_set": bank.name, "group": group, "shots": shots, **right})
    about = " ".join(__doc__.split("\n\n")[2].split(". What was")[0].split())
    page = Page(
        args.out,
        "Isolated, with a pool, joint",
        f"{about}. {args.episodes} episodes of every table.",
        BANKS=args.banks,
    )
    report(page, pandas.DataFrame(rows), args)


if __name__ == "__main__":
    main()
