"""Measure the runs of a folder on all testing banks, and summarise their training.

Runs are named NAME_SEED and averaged over seeds. The page has the number of steps of each run, its
last validation, accuracies on the testing sets by group, differences from the runs named base with
intervals over seeds and over data sets, and the validation curves. A run is tested as it was
trained: joint, causal or isolated. Existing results are reused; several processes can share the
work with `--shard 0/8`, `--shard 1/8` and so on, and `--page` writes the page of all results.

    python bench/measure_runs.py --banks BANKS --runs RUNS --out results/ablations
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring.page import Page
from measuring.row_files import add_rows, read_rows

from unitail.banks.bank import FeatureBank, named_banks
from unitail.benchmark.learners import load_learners
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Outcome
from unitail.evaluation.score import score_learners
from unitail.framework.statistics import MeanInterval
from unitail.learners.checkpoint import load_model
from unitail.learners.in_context import InContextLearner

TESTING = {
    "images": "cub200 rsscn7 dtd10 pacs_photo pacs_art_painting pacs_cartoon pacs_sketch"
    " brain_mri4 chest_xray3",
    "text": "clinc150 banking77 agnews trec6 imdb sst2",
    "audio": "esc50 fsdd gtzan",
}
"""Data sets that no run was trained on, by modality."""
GROUP_OF = {name: group for group, names in TESTING.items() for name in names.split()}
BASE = "base"
ALL_TABLES = "0/1"
"""The only shard of one."""
Rows = list[dict[str, Any]]


def measure(args: argparse.Namespace) -> None:
    """Measure all runs and some named learners on all testing banks; append rows."""
    device = torch.device(args.device)
    number, of = map(int, args.shard.split("/"))
    banks = {n: p for n, p in named_banks(args.banks).items() if n.split("/")[1] in GROUP_OF}
    learners: dict[str, Any] = {
        path.parent.name: InContextLearner(load_model(path).to(device).eval())
        for path in sorted(args.runs.glob("*/model"))
    }
    if args.learners:
        named = load_learners(Path("no runs"), args.learners, own=True, device=device)
        learners |= {each.name: each.learner for each in named}
    done = {(row["learner"], row["bank"], row["shots"]) for row in read_rows(args.out)}
    with add_rows(args.out / f"rows_{number}.jsonl") as file:
        for bank in sorted(banks)[number::of]:
            table = FeatureBank.open(banks[bank])
            for shots in args.shots:
                missing = {n: each for n, each in learners.items() if (n, bank, shots) not in done}
                protocol = EvaluationProtocol(
                    ways=5, shots=shots, queries=args.queries, episodes=args.episodes
                )
                scores = score_learners(missing, table, protocol, device=device) if missing else {}
                for name, evaluation in scores.items():
                    row = {"learner": name, "bank": bank, "shots": shots}
                    row |= {"group": GROUP_OF[bank.split("/")[1]], "ways": evaluation.protocol.ways}
                    file.write(json.dumps(row | _result(evaluation)) + "\n")
                file.flush()
            print(bank, flush=True)


def _result(evaluation: Any) -> dict[str, Any]:  # noqa: ANN401 - an Evaluation
    if evaluation.outcome is not Outcome.ANSWERED:
        return {"failed": str(evaluation.outcome), "reason": evaluation.reason}
    mean = evaluation.accuracy
    return {"accuracy": mean.mean, "half_width": mean.half_width, "episodes": mean.count}


def validations(run: Path) -> list[dict[str, Any]]:
    """Read the validations of a run from its log."""
    lines = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [entry for entry in lines if "validation" in entry]


def split_name(run: str) -> str:
    """Return the name of a run without its seed."""
    name, _, seed = run.rpartition("_")
    return name if seed.isdigit() else run


def interval(values: Sequence[float], digits: int = 1) -> str:
    """Format a mean, with the interval over seeds if there are several."""
    if len(values) < 2:
        return f"{values[0]:.{digits}f}"
    return f"{MeanInterval.of(values):.{digits}f}"


def write_page(args: argparse.Namespace) -> None:
    """Write the tables and the plot."""
    rows = read_rows(args.out)
    runs = sorted(path.parent for path in args.logs.glob("*/log.jsonl"))
    about = (
        f"{args.episodes} episodes of each table, up to 5-way, {args.queries} queries a class, one"
        " draw; ± is Student's 95 % interval over seeds, where there are several."
    )
    page = Page(args.out / "README.md", args.title, about, BANKS=args.banks, RUNS=args.runs)
    page.text("## Training", "Accuracy in % and loss on held-out classes at the last step.")
    _training_table(page, runs)
    page.text("![validation](validation.png)")
    _plot(runs, args.out / "validation.png")
    page.text("## Testing sets, accuracy in %")
    _testing_table(page, rows)
    if any(split_name(row["learner"]) == BASE for row in rows):
        page.text(
            f"## Differences from `{BASE}`, points",
            "With the half-width of the interval over seeds, then of that over data sets.",
        )
        _difference_table(page, rows)


def _training_table(page: Page, runs: Sequence[Path]) -> None:
    by_name: dict[str, list[Path]] = defaultdict(list)
    for run in runs:
        by_name[split_name(run.name)].append(run)
    header = ["run", "steps of each seed", "1-shot", "5-shot", "loss 1-shot", "loss 5-shot"]
    base = {run.name.rpartition("_")[2]: validations(run)[-1] for run in by_name.get(BASE, [])}
    page.table([*header, *(["1-shot from base", "5-shot from base"] if base else [])])
    for name, own in by_name.items():
        last = [validations(run)[-1] for run in own]
        steps = ", ".join(str(entry["step"]) for entry in last)
        cells = [
            interval([factor * entry["validation"][shots][key] for entry in last], digits)
            for key, factor, digits in (("accuracy", 100, 1), ("loss", 1, 2))
            for shots in ("1-shot", "5-shot")
        ]
        if base:
            cells += [_from_base(own, base, shots) for shots in ("1-shot", "5-shot")]
        page.row(name, steps, *cells)


def _from_base(own: Sequence[Path], base: dict[str, dict[str, Any]], shots: str) -> str:
    """Format the difference of accuracy from the base run with the same seed and classes."""
    changes = [
        100
        * (
            validations(run)[-1]["validation"][shots]["accuracy"]
            - base[run.name.rpartition("_")[2]]["validation"][shots]["accuracy"]
        )
        for run in own
        if run.name.rpartition("_")[2] in base
    ]
    return interval(changes) if any(changes) else ""


def _means(rows: Rows) -> dict[tuple[str, int], dict[str, float]]:
    """Average over the data sets of a group: by group and shots, then by run."""
    values: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        place = (f"{row['group']}, {row['bank'].split('/')[0]}", row["shots"])
        values[place][row["learner"]].append(100 * row.get("accuracy", np.nan))
    return {
        place: {name: float(np.mean(accuracies)) for name, accuracies in own.items()}
        for place, own in values.items()
    }


def _testing_table(page: Page, rows: Rows) -> None:
    means = _means(rows)
    sizes = {place: len({r["bank"] for r in rows if _place(r) == place}) for place in means}
    page.table(["run", *(f"{g}, {s}-shot ({sizes[g, s]})" for g, s in means)])
    for name in dict.fromkeys(split_name(row["learner"]) for row in rows):
        cells = []
        for own in means.values():
            values = [value for run, value in own.items() if split_name(run) == name]
            cells.append("cannot" if np.isnan(values).any() else interval(values))
        page.row(name, *cells)


def _place(row: dict[str, Any]) -> tuple[str, int]:
    return f"{row['group']}, {row['bank'].split('/')[0]}", row["shots"]


def _difference_table(page: Page, rows: Rows) -> None:
    """Write each run's difference from the base of its seed, on the same episodes."""
    places = list(dict.fromkeys(map(_place, rows)))
    page.table(["run", *(f"{group}, {shots}-shot" for group, shots in places)])
    accuracy = {
        (row["learner"], row["bank"], row["shots"]): 100 * row.get("accuracy", np.nan)
        for row in rows
    }
    seeded = [row["learner"] for row in rows if split_name(row["learner"]) != row["learner"]]
    for name in dict.fromkeys(map(split_name, seeded)):
        if name != BASE:
            page.row(name, *(_difference(name, place, rows, accuracy) for place in places))


def _difference(
    name: str, place: tuple[str, int], rows: Rows, accuracy: dict[tuple[str, str, int], float]
) -> str:
    """Format the mean difference at one position (seeds by data sets), with both half widths."""
    own = [row for row in rows if split_name(row["learner"]) == name and _place(row) == place]
    seeds = sorted({row["learner"].rpartition("_")[2] for row in own})
    banks = sorted({row["bank"] for row in own})
    shots = place[1]
    changes = np.array(
        [
            [
                accuracy.get((f"{name}_{seed}", bank, shots), np.nan)
                - accuracy.get((f"{BASE}_{seed}", bank, shots), np.nan)
                for bank in banks
            ]
            for seed in seeds
        ]
    )
    if np.isnan(changes).any():
        return "not all measured"
    widths = [
        f"{MeanInterval.of(values).half_width:.1f}" if len(values) > 1 else "-"
        for values in (changes.mean(axis=1), changes.mean(axis=0))
    ]
    return f"{changes.mean():.1f} ± {widths[0]} / {widths[1]}"


def _plot(runs: Sequence[Path], path: Path) -> None:
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(split_name(run.name) for run in runs))
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    panels = figure.subplots(1, 3)
    shown = (("1-shot", "loss"), ("5-shot", "loss"), ("1-shot", "accuracy"))
    for axis, (shots, key) in zip(panels, shown, strict=True):
        for run in runs:
            entries = validations(run)
            place = names.index(split_name(run.name))
            axis.plot(
                [entry["step"] for entry in entries],
                [entry["validation"][shots][key] for entry in entries],
                color=f"C{place % 10}",
                lw=1.2,
                alpha=0.8,
            )
        axis.set(title=f"{key}, {shots}, held-out classes", xlabel="step")
        axis.grid(alpha=0.3)
    lines = [
        panels[0].plot([], [], color=f"C{place % 10}", label=name)[0]
        for place, name in enumerate(names)
    ]
    figure.legend(handles=lines, loc="outside right upper", fontsize=8)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure (unless only the page is wanted) and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path, default=Path("BANKS"))
    parser.add_argument("--runs", type=Path, default=Path("RUNS"))
    parser.add_argument("--logs", type=Path, help="where logs are; RUNS")
    parser.add_argument(
        "--learners", nargs="*", default=["linear_probe_shrunk", "proto_head_paper"]
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--title", default="Runs of several recipes")
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--queries", type=int, default=8)
    parser.add_argument("--shard", default=ALL_TABLES, help="which tables: NUMBER/OF")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    args = parser.parse_args()
    args.logs = args.logs or args.runs
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.page:
        measure(args)
    if args.page or args.shard == ALL_TABLES:  # else others are at work, and one command comes last
        write_page(args)


if __name__ == "__main__":
    main()
