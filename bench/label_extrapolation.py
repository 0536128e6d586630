"""Accuracy against the number of classes, far beyond training (paper, figure a and B.1).

TAIL as shipped (trained with at most 5 classes), TAIL 50w (at most 50), the default model, simple
methods, and the runs of recipes/equal_episodes (at most 5 classes, room for 100). All learners
answer the same episodes; those that process a sequence for each query answer only the first
episodes of tasks with many classes. Failures are recorded as results. Existing results are kept,
except out-of-memory failures and results of another default model than the shipped one.

    python bench/label_extrapolation.py --banks BANKS --runs RUNS --out results/label_extrapolation
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from measuring.page import Page
from measuring.row_files import add_rows, read_rows
from torch import Tensor

from unitail.banks.bank import FeatureBank, named_banks
from unitail.baselines.logistic_regression import logistic_regression, with_constant
from unitail.benchmark.learners import load_learners
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Outcome
from unitail.evaluation.score import score_learners
from unitail.framework.episode import Support
from unitail.learners.checkpoint import load_model
from unitail.learners.fingerprints import default_stamp
from unitail.learners.in_context import InContextLearner

WAYS = (5, 10, 20, 30, 50, 70, 100)
SETS = ("efflite0/cub200", "resnet50/cub200", "minilm/clinc150", "glove100/clinc150")
NAMED = (
    "tail",
    "tail_50w",
    "unitail",
    "unitail_joint",
    "linear_probe_tuned",
    "linear_probe_shrunk",
    "proto_head_centred",
    "proto_head_paper",
)
PLAIN = "logistic_regression_unit"
STRENGTH = 100
DEFAULT = ("unitail", "unitail_joint")
"""Learners based on the default model."""
RUNS = ("tail", "gpicl", "caml", "snail")
SLOW = ("run gpicl", "run caml", "run snail")
"""Learners that process a sequence for each query."""
MANY = 50
"""Number of classes from which the slow learners answer only a few episodes."""


class UnitRegression:
    """Logistic regression on rows of length 1 with C = 100, a common baseline."""

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Fit on the support and predict the queries: log-probabilities (B, m, K)."""
        targets = F.one_hot(support.class_indices, support.ways).float()
        rows = F.normalize(support.features.float(), dim=-1)
        weights = logistic_regression(rows, targets, STRENGTH)
        queries = with_constant(F.normalize(query_features.float(), dim=-1))
        return (queries @ weights).log_softmax(dim=-1)


def chosen_learners(args: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Build the learners to measure."""
    names = [name for name in args.learners if name != PLAIN]
    named = names and load_learners(Path("no runs"), names, own=True, device=device)
    learners: dict[str, Any] = {each.name: each.learner for each in named}
    if PLAIN in args.learners:
        learners[PLAIN] = UnitRegression()
    for name in RUNS if args.runs is not None else ():
        folder = args.runs / f"{name}_0" / "model"
        if folder.exists():
            learners[f"run {name}"] = InContextLearner(load_model(folder).to(device).eval())
    return learners


def current_rows(folder: Path) -> list[dict[str, Any]]:
    """Read the measured rows, except those of another default model."""
    rows, model = read_rows(folder), default_stamp()
    return [row for row in rows if row["learner"] not in DEFAULT or row.get("model") == model]


def measure(args: argparse.Namespace) -> None:
    """Measure all learners on one data set after another."""
    device = torch.device(args.device)
    learners = chosen_learners(args, device)
    keys = ("bank", "learner", "ways", "shots")
    done = {
        tuple(row[key] for key in keys)
        for row in current_rows(args.out)
        if row.get("failed") != Outcome.OUT_OF_MEMORY
    }
    for data_set in args.sets:
        bank = FeatureBank.open(named_banks(args.banks)[data_set])
        with add_rows(args.out / f"rows_{data_set.replace('/', '_')}.jsonl") as file:
            for ways in args.ways:
                for shots in args.shots:
                    asked = {
                        name: learner
                        for name, learner in learners.items()
                        if (data_set, name, ways, shots) not in done
                    }
                    for row in _rows(asked, bank, ways, shots, args, device):
                        own = {"model": default_stamp()} if row["learner"] in DEFAULT else {}
                        file.write(json.dumps({"bank": data_set} | row | own) + "\n")
                    file.flush()
                print(data_set, ways, flush=True)


def _rows(
    learners: dict[str, Any],
    bank: FeatureBank,
    ways: int,
    shots: int,
    args: argparse.Namespace,
    device: torch.device,
) -> list[dict[str, Any]]:
    """Measure the learners at one number of classes and shots."""
    few = args.few if ways >= MANY else args.episodes
    rows = []
    for names, episodes in (
        ([name for name in learners if name not in SLOW], args.episodes),
        ([name for name in learners if name in SLOW], few),
    ):
        protocol = EvaluationProtocol(
            ways=ways, shots=shots, queries=args.queries, episodes=episodes
        )
        asked = {name: learners[name] for name in names}
        scores = score_learners(asked, bank, protocol, device=device) if asked else {}
        for name, evaluation in scores.items():
            row: dict[str, Any] = {"learner": name, "ways": ways, "shots": shots}
            if evaluation.outcome is Outcome.ANSWERED:
                mean = evaluation.accuracy
                row |= {"accuracy": mean.mean, "half_width": mean.half_width}
                row |= {"episodes": mean.count, "milliseconds": evaluation.milliseconds}
            else:
                row |= {"failed": str(evaluation.outcome), "reason": evaluation.reason}
            rows.append(row)
    return rows


def write_page(folder: Path, about: str) -> None:
    """Write tables and the plot."""
    order = [*NAMED, PLAIN, *(f"run {name}" for name in RUNS)]
    rows = current_rows(folder)
    order += sorted({row["learner"] for row in rows} - set(order))  # of the user's own
    rows.sort(key=lambda row: (row["bank"], row["ways"], order.index(row["learner"])))
    ways = sorted({row["ways"] for row in rows})
    page = Page(folder / "README.md", "Accuracy against the number of classes", about)
    page.text("![plot](extrapolation.png)")
    for bank in dict.fromkeys(row["bank"] for row in rows):
        for shots in (1, 5):
            own = [row for row in rows if (row["bank"], row["shots"]) == (bank, shots)]
            page.text(f"## {bank}, {shots}-shot, accuracy in %")
            page.table(["learner", *(f"K = {number}" for number in ways)])
            for name in dict.fromkeys(row["learner"] for row in own):
                cells = {row["ways"]: _cell(row) for row in own if row["learner"] == name}
                page.row(name, *(cells.get(number, "") for number in ways))
    _plot(rows, folder / "extrapolation.png")


def _cell(row: dict[str, Any]) -> str:
    if "accuracy" not in row:
        return str(row["failed"])
    return f"{100 * row['accuracy']:.1f} ± {100 * row['half_width']:.1f}"


def _plot(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    banks = list(dict.fromkeys(row["bank"] for row in rows))
    names = list(dict.fromkeys(row["learner"] for row in rows))
    figure = Figure(figsize=(3.6 * len(banks) + 1.6, 7), layout="constrained")
    panels = figure.subplots(2, len(banks), squeeze=False, sharex=True)
    for line, shots in zip(panels, (1, 5), strict=True):
        for axis, bank in zip(line, banks, strict=True):
            for number, name in enumerate(names):
                own = [
                    row
                    for row in rows
                    if (row["bank"], row["shots"], row["learner"]) == (bank, shots, name)
                    and "accuracy" in row
                ]
                axis.errorbar(
                    [row["ways"] for row in own],
                    [100 * row["accuracy"] for row in own],
                    yerr=[100 * row["half_width"] for row in own],
                    marker="o",
                    ms=3,
                    lw=1.2,
                    ls="--" if name.startswith("run ") else "-",
                    color=f"C{number % 10}",
                    label=name,
                )
            classes = sorted({row["ways"] for row in rows})
            axis.plot(classes, [100 / number for number in classes], ":", color="grey")
            axis.axvline(5, color="grey", lw=0.6)
            axis.set(title=f"{bank}, {shots}-shot", xscale="log", xticks=classes)
            axis.set_xticklabels(classes)
            axis.minorticks_off()
            axis.grid(alpha=0.3)
    handles = panels[0][0].get_legend_handles_labels()[0]
    figure.legend(handles=handles, loc="outside right upper", fontsize=8)
    figure.supxlabel(
        "classes K; dotted: chance; the line at 5: the most classes of training", size=9
    )
    figure.supylabel("accuracy in %, 95 % interval", size=9)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure (unless only the page is wanted) and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--learners", nargs="*", default=[*NAMED, PLAIN])
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--ways", type=int, nargs="+", default=list(WAYS))
    parser.add_argument("--queries", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--few", type=int, default=20)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument("--rows-only", action="store_true", help="others are at work: no page")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.page:
        measure(args)
    if args.rows_only:
        return
    write_page(
        args.out,
        f"{args.queries} queries a class, {args.episodes} episodes ({args.few} from {MANY} classes"
        " on for learners that read a sequence for each query), the same for all; 95 % intervals"
        " over episodes. Names that begin with `run` are the runs of recipes/equal_episodes, one"
        " draw; `tail` and `tail_50w` are those that ship, joint, eight draws."
        f" `{PLAIN}` has rows of length 1 and C = {STRENGTH}.",
    )


if __name__ == "__main__":
    main()
