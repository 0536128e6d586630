"""easyfsl's transductive methods and ours, queries answered together, on the same episodes.

    python3 -m venv PEERS
    PEERS/bin/pip install -c constraints.txt -e '.[report]' easyfsl
    PEERS/bin/python bench/peers.py --banks BANKS --out results/peers

An environment of its own, since easyfsl brings torchvision: its import fails beside a torch for
CPUs without a shim, and it breaks transformers.

Features are prepared for each peer in the way that suits it best: the preparation, for those called
tuned also the options, is chosen for each protocol on classes that recipes train on, never on what
is tested, and kept in OUT/settings.json (delete it to choose again); those for Dirichlet(1) shares
are used for all unequal ones. What is measured is kept too:
the same command again goes on where it was. Several processes can share the work: after one with
--choose, each takes some banks with --only, and one more without it writes the whole report.
"""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatch
from pathlib import Path

import torch
from easyfsl_methods import GRID, VERSION, Peer

from unitail.banks.bank import FeatureBank
from unitail.banks.splits import split_classes
from unitail.banks.table import FeatureTable
from unitail.benchmark.compare import compare_groups, read_rows
from unitail.benchmark.learners import BenchLearner, load_learners
from unitail.benchmark.report import (
    README_FILE,
    accuracy_cell,
    learner_table,
    write_benchmark_report,
)
from unitail.benchmark.run import BenchRun
from unitail.benchmark.store import TableResult
from unitail.benchmark.suite_file import read_suite
from unitail.benchmark.suites import BenchTable, open_suite
from unitail.benchmark.tables import data_set_means, group_means, grouped
from unitail.evaluation.episodes import FixedEpisodes
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.framework.episode import Episode
from unitail.framework.task import accuracy
from unitail.tasks.batches import QueryShares
from unitail.training.config import DEFAULT_SEED
from unitail.training.recipe import HELD_OUT
from unitail.wording import markdown_table

JOINT = ("unitail_joint", "unitail_joint_balanced")
"""Ours; the second is told that classes occur equally often, as PT-MAP takes for granted."""
OURS = (*JOINT, "unitail", "linear_probe_tuned")
ALL = "all data sets"
CHOSEN_ON = [
    f"{encoder}/{name}"
    for encoder in ("efflite0", "sscd_distilled")
    for name in ("tiny_imagenet", "grocery", "plantvillage", "gtsrb", "clothing17", "intel_scenes6")
]
"""Of tiny_imagenet, the classes that recipes train on."""
CONCENTRATIONS = (0.15, 0.5, 1.0, 2.0)
"""Of shares that are not equal: at 0.15 half of the five classes have no query at all."""
CHOSEN_AT = 1.0
"""The concentration that settings for unequal shares are chosen at."""
TIMED = 8
"""The runs that the duration is estimated from."""
Chosen = dict[str, dict[str, Peer]]
"""By protocol and name."""


def protocols(episodes: int, concentrations: Sequence[float]) -> list[EvaluationProtocol]:
    """Return the shapes that are tested: equal shares, then unequal ones."""
    equal = [EvaluationProtocol(shots=shots, queries=10, episodes=episodes) for shots in (1, 5)]
    unequal = [
        replace(each, query_shares=QueryShares.RANDOM, concentration=own)
        for own in concentrations
        for each in equal
    ]
    return [*equal, *unequal]


def chosen_for(protocol: EvaluationProtocol) -> str:
    """Return the name of the protocol whose settings are used."""
    return replace(protocol, concentration=CHOSEN_AT).name


def training_table(folder: Path) -> FeatureTable:
    """Open a bank, of tiny_imagenet the classes that recipes train on."""
    bank = FeatureBank.open(folder)
    return split_classes(bank, HELD_OUT, DEFAULT_SEED)[0] if bank.name == "tiny_imagenet" else bank


def choose(banks: Path, names: Sequence[str], episodes: int) -> Chosen:
    """Choose for each protocol the best setting of each peer, by mean accuracy."""
    chosen: Chosen = {}
    for protocol in protocols(episodes, (CHOSEN_AT,)):
        sources = [training_table(banks / name) for name in names]
        batches = [
            batch.episode
            for source in sources
            for batch in FixedEpisodes.of(source, protocol).batches()
        ]
        chosen[protocol.name] = {name: best(peers, batches) for name, peers in GRID.items()}
        for name, peer in chosen[protocol.name].items():
            print(f"{protocol.name}, {name}: {peer}", flush=True)
    return chosen


def best(settings: Sequence[Peer], batches: Sequence[Episode]) -> Peer:
    """Return the peer of the highest accuracy."""

    def total(peer: Peer) -> float:
        return sum(score(peer, episode) for episode in batches)

    return max(settings, key=total)


def score(peer: Peer, episode: Episode) -> float:
    """Return the sum of the accuracies on the episodes of a batch."""
    truth = episode.query.class_indices
    assert truth is not None, "test episodes have labelled queries"
    return float(accuracy(peer.infer(episode.support, episode.query.features), truth).sum())


def settings(args: argparse.Namespace) -> Chosen:
    """Read the settings, or choose and write them."""
    path = args.out / "settings.json"
    if not path.exists():
        args.out.mkdir(parents=True, exist_ok=True)
        chosen = choose(args.banks, args.choose_on, args.choose_episodes)
        text = {
            name: {key: asdict(peer) for key, peer in own.items()} for name, own in chosen.items()
        }
        path.write_text(json.dumps(text, indent=1) + "\n")
    read = json.loads(path.read_text())
    return {
        name: {
            key: Peer(peer["method"], peer["preparation"], tuple(map(tuple, peer["options"])))
            for key, peer in own.items()
        }
        for name, own in read.items()
    }


def all_runs(
    tables: Sequence[BenchTable], chosen: Chosen, args: argparse.Namespace
) -> list[BenchRun]:
    """Prepare a run for each data set and protocol; the folders differ, so they may run at once."""
    ours = load_learners(args.out / "no runs", OURS)
    return [
        BenchRun(
            learners=[*ours, *peers(chosen[chosen_for(protocol)])],
            tables=[each],
            protocols=[protocol],
            folder=args.out / "work" / each.table.encoder / each.table.name,
            device=torch.device("cpu"),
        )
        for each in tables
        for protocol in protocols(args.episodes, args.concentrations)
        if each.allows(protocol)
    ]


def peers(chosen: Mapping[str, Peer]) -> list[BenchLearner]:
    """Let peers take part; results are void if easyfsl or their settings change."""
    return [
        BenchLearner(name, peer, f"easyfsl {VERSION} {peer!r}") for name, peer in chosen.items()
    ]


def announce(runs: Sequence[BenchRun]) -> None:
    """Say how long it will take, from a few episodes of some data sets."""
    some = runs[:: max(1, len(runs) // TIMED)]
    spent = sum(map(seconds, some)) / len(some)
    missing = sum(run.pending() / len(run.learners) for run in runs)
    print(f"{1000 * spent:.0f} ms for an episode, {missing:,.0f} episodes:", end=" ")
    print(f"at most {spent * missing / 60:.0f} minutes of one core", flush=True)


def seconds(run: BenchRun, count: int = 2) -> float:
    """Return the time of all learners for an episode."""
    episodes = FixedEpisodes.of(run.tables[0].table, run.protocols[0])
    episode = episodes.batch(episodes.protocol.episodes - count).episode
    start = time.process_time()
    for each in run.learners:
        each.learner.infer(episode.support, episode.query.features)
    return (time.process_time() - start) / count


def measure(runs: Sequence[BenchRun]) -> list[TableResult]:
    """Run all, and tell of each."""
    results = []
    for place, run in enumerate(runs):
        start = time.process_time()
        [result] = run.run()
        means = [
            f"{name} {100 * each.accuracy.mean:.1f}" for name, each in result.evaluations.items()
        ]
        spent = f"{time.process_time() - start:.0f} s"
        what = f"{place + 1}/{len(runs)} {result.table.name}, {result.protocol.name}"
        print(f"{what} ({spent}): {', '.join(means)}", flush=True)
        results.append(result)
    return results


def report(args: argparse.Namespace, results: Sequence[TableResult], chosen: Chosen) -> str:
    """Write the means over all data sets, what ours are above the best peer, and the settings."""
    summary = group_means(replace(row, group=ALL) for row in data_set_means(results))
    rows = read_rows(args.out)
    lines = []
    for protocol, own in grouped(summary, lambda row: row.protocol).items():
        theirs = [row for row in own if row.learner not in OURS]
        peer = max(theirs, key=lambda row: row.accuracy).learner
        asked = rows.take(rows.protocol == protocol)
        for ours in JOINT:
            for what, found in compare_groups(asked, ours, peer).items():
                numbers = [100 * value for value in (found.difference, found.low, found.high)]
                cells = ["{:+.1f}, {:+.1f} to {:+.1f}".format(*numbers), f"{found.pairs:,}"]
                lines.append([what, ours, peer, *cells, str(len(found.data_sets))])
    header = ["", "ours", "best peer", "ours minus it, 95 % interval", "pairs", "data sets"]
    kept = [[name, *(str(own[name]) for own in chosen.values())] for name in GRID]
    return "\n\n".join([
        "## All data sets",
        learner_table(summary, lambda row: row.protocol, accuracy_cell, bold=True),
        "The best peer is the one with the highest of these means; pairs of episodes, bootstrap:",
        markdown_table(header, lines, rule="---"),
        "## Settings of the peers",
        f"easyfsl {VERSION}. Chosen on classes that recipes train on, of"
        f" {', '.join(args.choose_on)}; for unequal shares with Dirichlet({CHOSEN_AT:g}).",
        markdown_table(["peer", *chosen], kept, rule="---"),
    ])  # fmt: skip


def main() -> None:
    """Choose, measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns ENCODER/DATASET")
    parser.add_argument("--episodes", type=int, default=600, help="of each bank and protocol")
    parser.add_argument(
        "--concentrations", type=float, nargs="*", default=CONCENTRATIONS, help="Dirichlet's"
    )
    parser.add_argument("--choose-on", nargs="+", default=CHOSEN_ON, metavar="BANK")
    parser.add_argument("--choose-episodes", type=int, default=20, help="to choose settings from")
    parser.add_argument("--choose", action="store_true", help="choose the settings only")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are small
    chosen = settings(args)
    if args.choose:
        return
    tables = [
        each
        for each in open_suite(read_suite("banks"), args.banks).tables
        if any(fnmatch(each.name, pattern) for pattern in args.only)
    ]
    if not tables:
        parser.error(f"no bank of the suite matches {' '.join(args.only)}")
    runs = all_runs(tables, chosen, args)
    announce(runs)
    results = measure(runs)
    command = "python " + shlex.join(sys.argv)
    notes = ["All but unitail and linear_probe_tuned are transductive: queries see each other."]
    title = "Transductive peers"
    write_benchmark_report(args.out, results, title=title, command=command, notes=notes)
    path = args.out / README_FILE
    first, mark, rest = path.read_text().partition("## Groups")
    path.write_text(first + report(args, results, chosen) + "\n\n" + mark + rest)


if __name__ == "__main__":
    main()
