"""The default model isolated, with a pool and joint, beside logistic regression, paired.

    python bench/with_pool.py --banks BANKS --episodes 20 --out results/with_pool.md

Five classes, or all where a table has fewer; ten queries of a class, and for the pool ten other
rows. Every feature table gives the same number of episodes. Differences are paired; they are
averaged over the tables of a data set first, and intervals are Student's over data sets.
"""

import argparse
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from unitail.banks.bank import FeatureBank, named_banks
from unitail.baselines.linear_probe import LinearProbe, ProbeVariant
from unitail.framework.episode import Episode, Query
from unitail.framework.statistics import MeanInterval
from unitail.framework.task import accuracy
from unitail.learners.pretrained import load_default
from unitail.nn.episode_model import Visibility
from unitail.randomness import stream
from unitail.relational.reading import RelationalDraw
from unitail.tasks.bank_episodes import BankEpisodes
from unitail.tasks.batches import EpisodeRanges

QUERIES = 10
POOL = 10
WAYS = 5
Rows = dict[str, dict[str, list[float]]]
"""By learner and data set, the mean accuracy on each of its tables."""


def tables(folder: Path, shots: int) -> Iterator[tuple[FeatureBank, int]]:
    """Open the banks, with the number of classes that have rows enough."""
    for path in named_banks(folder).values():
        bank = FeatureBank.open(path)
        ways = int((bank.class_sizes >= shots + QUERIES + POOL).sum())
        if ways >= 2:
            yield bank, min(WAYS, ways)


def split(episode: Episode, ways: int) -> tuple[Episode, Tensor]:
    """Take a pool, as many rows as there are queries, from the queries, which come in any order."""
    count = ways * POOL
    query = episode.query
    assert query.class_indices is not None, "sources sample labelled queries"
    asked = Query(features=query.features[:, count:], class_indices=query.class_indices[:, count:])
    return replace(episode, query=asked), query.features[:, :count]


@torch.no_grad()
def measure(folder: Path, shots: int, episodes: int) -> Rows:
    """Ask all in all ways."""
    model, probe = load_default(), LinearProbe(variant=ProbeVariant.SHRUNK)
    rows: Rows = {}
    for bank, ways in tables(folder, shots):
        ranges = EpisodeRanges.fixed(
            episodes=episodes, ways=ways, shots=shots, queries=QUERIES + POOL
        )
        names = (bank.full_name, shots)
        batch = BankEpisodes([bank]).choose_batch(ranges, stream(0, *names, "plan"))
        episode, pool = split(batch.sample(stream(0, *names)), ways)
        support, queries, draw = episode.support, episode.query.features, RelationalDraw()
        answers = {
            "logistic regression": probe.infer(support, queries),
            "each row by itself": model(episode, draw, Visibility.ISOLATED),
            "with a pool": model(episode, draw, Visibility.ISOLATED, pool),
            "joint": model(episode, draw, Visibility.JOINT),
        }
        truth = episode.query.class_indices
        assert truth is not None, "sources sample labelled queries"
        for name, scores in answers.items():
            right = 100 * float(accuracy(scores.log_softmax(dim=-1), truth).mean())
            rows.setdefault(name, {}).setdefault(bank.name, []).append(right)
    return rows


def report(rows: Rows) -> list[str]:
    """Write a table: the mean over data sets, and differences from the first learner."""
    means = {
        name: torch.tensor([sum(own) / len(own) for own in sets.values()])
        for name, sets in rows.items()
    }
    first = next(iter(means))
    lines = [
        "| | accuracy, % | points above the first, 95 % | worst data set |",
        "|---|---|---|---|",
    ]
    for name, values in means.items():
        gap = values - means[first]
        interval = MeanInterval.of(gap.numpy())
        cell = "" if name == first else f"{interval.mean:+.2f} ± {interval.half_width:.2f}"
        worst = "" if name == first else f"{float(gap.min()):+.1f}"
        lines.append(f"| {name} | {float(values.mean()):.1f} | {cell} | {worst} |")
    return lines


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    lines = ["# Isolated, with a pool, joint", "", f"    python {shlex.join(sys.argv)}", ""]
    lines += [__doc__.split("\n\n")[2].strip(), f"{args.episodes} episodes of every table."]
    for shots in args.shots:
        rows = measure(args.banks, shots, args.episodes)
        count = len(next(iter(rows.values())))
        lines += ["", f"## Labels a class: {shots}; data sets: {count}", "", *report(rows)]
    args.out.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
