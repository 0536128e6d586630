"""Compare transductive methods of the literature with ours on the same episodes.

    python bench/peers.py --banks BANKS --out results/peers

Features are preprocessed for each peer in the way that suits it best: the preprocessing, and for
peers marked "tuned" also the options, is chosen for each protocol on training classes, never on the
test sets, and stored in OUT/settings.json (delete it to choose again); the settings for
Dirichlet(1) shares are used for all unequal ones. Results are stored too, so the command can be
interrupted and resumed, and with another default model only our learners are measured again.
Several processes share the work with --workers; protocols not finished within --seconds are left
out of the report.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from measuring import transductive_methods
from measuring.banks import chosen_tables
from measuring.peers_report import OURS, report
from measuring.transductive_methods import GRID, Peer

from unitail.banks.bank import FeatureBank
from unitail.banks.splits import split_classes
from unitail.banks.table import FeatureTable
from unitail.benchmark.learners import BenchLearner, load_learners
from unitail.benchmark.report import README_FILE, write_benchmark_report
from unitail.benchmark.run import BenchRun
from unitail.benchmark.store import TableResult
from unitail.benchmark.suites import BenchTable
from unitail.evaluation.episodes import FixedEpisodes
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.files import sha256_of
from unitail.framework.episode import Episode
from unitail.framework.task import accuracy
from unitail.tasks.batches import QueryShares
from unitail.training.config import DEFAULT_SEED
from unitail.training.recipe import HELD_OUT

CHOSEN_ON = [
    f"{encoder}/{name}"
    for encoder in ("efflite0", "sscd_distilled")
    for name in ("tiny_imagenet", "grocery", "plantvillage", "gtsrb", "clothing17", "intel_scenes6")
]
"""Banks to choose settings on; of tiny_imagenet only the training classes."""
CONCENTRATIONS = (1.0, 0.15, 0.5, 2.0)
"""Concentrations of unequal shares: at 0.15, half of five classes have no query."""
CHOSEN_AT = 1.0
"""Concentration at which settings for unequal shares are chosen."""
Chosen = dict[str, dict[str, Peer]]
"""Chosen peers, by protocol and name."""


def protocols(episodes: int, concentrations: Sequence[float]) -> list[EvaluationProtocol]:
    """Return the test protocols: balanced, unequal and absent classes."""
    equal = [EvaluationProtocol(shots=shots, queries=10, episodes=episodes) for shots in (1, 5)]
    unequal = [
        replace(each, query_shares=QueryShares.RANDOM, concentration=own)
        for own in concentrations
        for each in equal
    ]
    absent = [replace(each, query_shares=QueryShares.ABSENT) for each in equal]
    return [*equal, *unequal, *absent]


def chosen_for(protocol: EvaluationProtocol) -> str:
    """Return the name of the protocol whose settings are used."""
    if protocol.query_shares is QueryShares.BALANCED:
        return protocol.name
    return replace(protocol, query_shares=QueryShares.RANDOM, concentration=CHOSEN_AT).name


def training_table(folder: Path) -> FeatureTable:
    """Open a bank; of tiny_imagenet only the training classes."""
    bank = FeatureBank.open(folder)
    return split_classes(bank, HELD_OUT, DEFAULT_SEED)[0] if bank.name == "tiny_imagenet" else bank


def choose(args: argparse.Namespace) -> Chosen:
    """Choose the best setting of each peer for each protocol, by mean accuracy."""
    chosen: Chosen = {}
    shapes = protocols(args.choose_episodes, (CHOSEN_AT,))
    for protocol in shapes:
        if chosen_for(protocol) != protocol.name:
            continue
        batches = [
            batch.episode.to(torch.device(args.device))
            for name in args.choose_on
            for batch in FixedEpisodes.of(training_table(args.banks / name), protocol).batches()
        ]
        chosen[protocol.name] = {name: best(peers, batches) for name, peers in GRID.items()}
        for name, peer in chosen[protocol.name].items():
            print(f"{protocol.name}, {name}: {peer}", flush=True)
    return chosen


def best(settings: Sequence[Peer], batches: Sequence[Episode]) -> Peer:
    """Return the peer with the highest accuracy."""

    def total(peer: Peer) -> float:
        return sum(score(peer, episode) for episode in batches)

    return max(settings, key=total)


def score(peer: Peer, episode: Episode) -> float:
    """Return the sum of accuracies over the episodes of a batch."""
    truth = episode.query.class_indices
    assert truth is not None, "test episodes have labelled queries"
    return float(accuracy(peer.infer(episode.support, episode.query.features), truth).sum())


def settings(args: argparse.Namespace) -> Chosen:
    """Read the settings, or choose and write them."""
    path = args.out / "settings.json"
    if not path.exists():
        args.out.mkdir(parents=True, exist_ok=True)
        text = {
            name: {key: asdict(peer) for key, peer in own.items()}
            for name, own in choose(args).items()
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
    """Prepare a run per protocol and data set, in separate folders so they can run at once."""
    ours = load_learners(args.out / "no runs", OURS, device=args.device)
    return [
        BenchRun(
            learners=[*ours, *peers(chosen[chosen_for(protocol)])],
            tables=[each],
            protocols=[protocol],
            folder=args.out / "work" / each.table.encoder / each.table.name / protocol.name,
            device=torch.device(args.device),
        )
        for protocol in protocols(args.episodes, args.concentrations)
        for each in tables
        if each.allows(protocol)
    ]


def peers(chosen: Mapping[str, Peer]) -> list[BenchLearner]:
    """Wrap the peers as benchmark learners; results are void if methods or settings change."""
    source = sha256_of(Path(str(transductive_methods.__file__)))
    return [BenchLearner(name, peer, f"{source} {peer!r}") for name, peer in chosen.items()]


def measure(runs: Sequence[BenchRun], end: float) -> None:
    """Run everything that fits into the time, and report each."""
    for place, run in enumerate(runs):
        start = time.monotonic()
        if start > end:
            return
        [result] = run.run()
        means = [
            f"{name} {100 * each.accuracy.mean:.1f}" for name, each in result.evaluations.items()
        ]
        spent = f"{time.monotonic() - start:.0f} s"
        what = f"{place + 1}/{len(runs)} {result.table.name}, {result.protocol.name}"
        print(f"{what} ({spent}): {', '.join(means)}", flush=True)


def share_out(workers: int, end: float) -> None:
    """Run several processes until the work is done or the time is over."""
    command = [sys.executable, *sys.argv, "--shard"]
    processes = [subprocess.Popen([*command, str(number)]) for number in range(workers)]
    for each in processes:
        try:
            each.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.terminate()
            each.wait()


def measured(runs: Sequence[BenchRun]) -> list[TableResult]:
    """Read the results of protocols that were measured on all data sets."""
    open_ = {run.protocols[0].name for run in runs if run.pending()}
    for name in sorted(open_):
        print(f"not all of it is measured, and it is left out: {name}", flush=True)
    return [result for run in runs if run.protocols[0].name not in open_ for result in run.run()]


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
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=1e6, help="at most for measuring")
    parser.add_argument("--shard", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are small
    chosen = settings(args)
    if args.choose:
        return
    tables = chosen_tables(parser, args.banks, args.only)
    runs = all_runs(tables, chosen, args)
    end = time.monotonic() + args.seconds
    if args.shard is not None or args.workers == 1:
        measure(runs[args.shard or 0 :: args.workers], end)
    else:
        share_out(args.workers, end)
    if args.shard is not None:
        return
    results = measured(runs)
    if not results:
        raise SystemExit("nothing was measured on all data sets: run it again to resume")
    command = f"python bench/peers.py {shlex.join(sys.argv[1:])}".replace(str(args.banks), "BANKS")
    notes = ["All but unitail and linear_probe_shrunk are transductive: queries see each other."]
    title = "Transductive peers"
    write_benchmark_report(args.out, results, title=title, command=command, notes=notes)
    path = args.out / README_FILE
    first, mark, rest = path.read_text().partition("## Groups")
    path.write_text(first + report(args, results, chosen) + "\n\n" + mark + rest)


if __name__ == "__main__":
    main()
