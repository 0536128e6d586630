"""Train the ablations and baselines of the paper in parallel on one GPU, and measure them.

One command for the results in results/ablations, results/equal_episodes and the runs of
results/label_extrapolation and results/validity: it imports a sample of the banks (made by
bench/sample_banks.py), trains the eight recipes of recipes/ablations with three seeds and the four
of recipes/equal_episodes with one, all for the steps that the recipes state, and then measures on
the testing sets. When restarted, it resumes where it stopped; results are in OUT as soon as they
are measured.

    python bench/paper_runs.py SAMPLE --work WORK --out OUT
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from unitail.banks.importer import import_bank

BENCH = Path(__file__).parent
RECIPES = BENCH.parent / "recipes"
SLOW = ("isolated", "dense")
"""Ablations with the slowest steps; they start first so that none runs alone at the end."""
SEQUENCES = ("gpicl", "caml", "snail")
SETS = ("efflite0/cub200", "resnet50/cub200", "minilm/clinc150", "glove100/clinc150")


class Stage:
    """Commands that run at once, each with its own log; waits for all and reports failures."""

    def __init__(self, name: str, args: argparse.Namespace) -> None:
        self.name, self.args = name, args
        self.begun = time.perf_counter()
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, label: str, *words: object) -> None:
        """Start a script of this folder, or a module with -m."""
        log = self.args.out / "logs" / f"{self.name}_{label}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as file:
            self.running[label] = subprocess.Popen(
                [sys.executable, *map(str, words)],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )

    def wait(self) -> None:
        """Wait until all commands have ended."""
        failed = [label for label, process in self.running.items() if process.wait() != 0]
        spent = time.perf_counter() - self.begun
        state = f"FAILED: {', '.join(failed)}" if failed else "done"
        print(f"{self.name}: {state} after {spent:.0f} s", flush=True)


def train(args: argparse.Namespace) -> None:
    """Train all runs that do not exist yet, and copy their logs."""
    stage = Stage("train", args)
    options: list[object] = ["--banks", args.work / "banks"]
    options += ["--steps", args.steps] if args.steps else []
    options += ["--cpu"] if args.device == "cpu" else []
    script = BENCH / "train_recipes.py"
    ablations = ["--seeds", *args.seeds, "--slow", *SLOW, "--at-once", args.at_once]
    ablations += ["--only", *args.only] if args.only else []
    runs = args.work / "ablations"
    recipes = args.recipes
    stage.start("ablations", script, recipes / "ablations", "--runs", runs, *options, *ablations)
    if args.baselines:
        runs = args.work / "equal_episodes"
        stage.start("baselines", script, recipes / "equal_episodes", "--runs", runs, *options)
    stage.wait()
    for log in args.work.glob("*/*/log.jsonl"):
        target = args.out / log.parent.relative_to(args.work)
        target.mkdir(parents=True, exist_ok=True)
        for name in ("log.jsonl", "recipe.json"):
            shutil.copy(log.parent / name, target / name)


def measure(args: argparse.Namespace) -> None:
    """Measure the runs on the testing sets, then on many classes."""
    banks = ["--banks", args.work / "banks"]
    stage = Stage("measure", args)
    kinds = ["ablations", "equal_episodes"] if args.baselines else ["ablations"]
    for kind in kinds:
        options = [*banks, "--runs", args.work / kind, "--out", args.out / kind]
        options += ["--device", args.device, "--episodes", args.episodes]
        options += ["--learners", *args.learners]
        for number in range(args.shards):
            shard = f"{number}/{args.shards}"
            stage.start(f"{kind}_{number}", BENCH / "measure_runs.py", *options, "--shard", shard)
    stage.wait()
    if args.baselines:
        extrapolate(args, banks)
    stage = Stage("pages", args)
    for kind in kinds:
        options = ["--runs", args.work / kind, "--out", args.out / kind]
        options += ["--episodes", args.episodes, "--page"]
        stage.start(kind, BENCH / "measure_runs.py", *options)
    stage.wait()


def extrapolate(args: argparse.Namespace, banks: list[object]) -> None:
    """Measure the baselines on many classes, and their validity as learning algorithms."""
    stage = Stage("many_classes", args)
    runs = args.work / "equal_episodes"
    for name in SETS:
        options = [
            *banks,
            "--runs",
            runs,
            "--out",
            args.out / "label_extrapolation",
            "--sets",
            name,
        ]
        options += ["--learners", "--few", args.few, "--episodes", args.few_classes_episodes]
        options += ["--device", args.device, "--rows-only"]
        label = name.replace("/", "_")
        stage.start(label, BENCH / "label_extrapolation.py", *options)
    for name in SEQUENCES:
        options = ["validity", *banks, "--learner", runs / f"{name}_0" / "model"]
        options += ["--out", args.work / "validity" / name, "--draws", args.draws]
        options += ["--curves", args.out / "validity" / "curves", "--device", args.device]
        stage.start(f"validity_{name}", "-m", "unitail", *options)
    stage.wait()


def main() -> None:
    """Import banks, train and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sample", type=Path, help="coded banks, ENCODER/DATASET.npz")
    parser.add_argument("--work", type=Path, required=True, help="banks and runs go there")
    parser.add_argument("--out", type=Path, required=True, help="what is kept")
    parser.add_argument("--recipes", type=Path, default=RECIPES, help="with folders of both kinds")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, help="else those of the recipes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", help="ablations by name")
    parser.add_argument("--no-baselines", dest="baselines", action="store_false")
    parser.add_argument("--learners", nargs="*", default=["proto_head_paper"])
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--few-classes-episodes", type=int, default=40)
    parser.add_argument("--few", type=int, default=8)
    parser.add_argument("--draws", type=int, default=40)
    args = parser.parse_args()
    for path in sorted(args.sample.glob("*/*.npz")):
        import_bank(path, args.work / "banks" / path.parent.name / path.stem)
    print("banks: done", flush=True)
    train(args)
    measure(args)


if __name__ == "__main__":
    main()
