"""Train every recipe of a folder, with several seeds, several runs at once.

All make the steps of their recipe, or `--steps`. With `--seconds` each run gets as many steps as it
makes in this time beside the others, so that recipes have the same time and not the same steps.
With `--rates` each recipe is first tried with each learning rate for `--search-steps`, and then
trained with the one that is best on held-out classes. A run that is already there is left alone,
and one that was interrupted goes on at its last checkpoint.

    python bench/train_recipes.py recipes/ablations --banks BANKS --runs RUNS --seeds 0 1 2
"""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch

from unitail.learners.registry import build_model
from unitail.training.data import build_sources
from unitail.training.processes import Processes
from unitail.training.recipe import Recipe, read_recipe
from unitail.training.step import TrainingStep
from unitail.training.trainer import Trainer

TIMED, UNTIMED = 60, 20
"""The steps that tell how long one takes, and those before them."""


def affordable(recipe: Recipe, seconds: float, args: argparse.Namespace) -> int:
    """Count the steps that fit into some time, beside whatever else runs now."""
    sources, processes = build_sources(recipe, args.banks), Processes(cpu=args.cpu)
    model = build_model(recipe.model)
    step = TrainingStep(recipe, sources.training, model, processes)
    start = 0.0
    for number in range(UNTIMED + TIMED):
        if number == UNTIMED:
            start = _now()
        step(number)
    return max(1, int(seconds * TIMED / (_now() - start)))


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def train_one(args: argparse.Namespace) -> None:
    """Train one recipe in this process."""
    recipe = read_recipe(args.recipes)
    training = replace(recipe.training, seed=args.seed)
    if args.rate is not None:
        training = replace(training, learning_rate=args.rate)
    recipe = replace(recipe, training=training)
    steps = args.steps or training.steps
    if args.seconds is not None:
        steps = affordable(recipe, args.seconds, args)
    training = replace(
        training, steps=steps, warmup_steps=steps // 15, checkpoint_every=max(1, steps // 5)
    )
    validation = replace(recipe.validation, every=max(1, steps // 10))
    recipe = replace(recipe, training=training, validation=validation)
    sources = build_sources(recipe, args.banks)
    Trainer(recipe, args.runs, sources, processes=Processes(cpu=args.cpu)).run()


def start(args: argparse.Namespace, recipe: Path, folder: Path, *extra: object) -> None:
    """Train one recipe in a process of its own, unless it was trained before."""
    if (folder / "model").exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, __file__, recipe, "--one", "--banks", args.banks, "--runs", folder]
    words += [*extra, *(["--cpu"] if args.cpu else [])]
    begun = time.perf_counter()
    log = folder.parent / f"{folder.name}.txt"
    with log.open("w") as file:
        code = subprocess.run(
            [str(word) for word in words], check=False, stdout=file, stderr=file
        ).returncode
    spent = time.perf_counter() - begun
    print(f"{folder.name}: {'done' if code == 0 else 'FAILED'} in {spent:.0f} s", flush=True)


def best_rate(folders: dict[float, Path]) -> float:
    """Return the learning rate whose run has the best last validation."""
    scores = {}
    for rate, folder in folders.items():
        entries = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
        scores[rate] = [entry["score"] for entry in entries if "score" in entry][-1]
    return max(scores, key=lambda rate: scores[rate])


def train_all(args: argparse.Namespace) -> None:
    """Train all recipes, some at once."""
    paths = sorted(args.recipes.glob("*.toml")) if args.recipes.is_dir() else [args.recipes]
    paths = [path for path in paths if not args.only or path.stem in args.only]
    with ThreadPoolExecutor(args.at_once) as pool:
        rates: dict[Path, float] = {}
        trial = ("--steps", args.search_steps)
        if args.rates:
            trials = {
                path: {rate: args.runs / "search" / f"{path.stem}_{rate:g}" for rate in args.rates}
                for path in paths
            }
            waits = [
                pool.submit(start, args, path, folder, "--rate", rate, *trial)
                for path, folders in trials.items()
                for rate, folder in folders.items()
            ]
            for wait in waits:
                wait.result()
            rates = {path: best_rate(folders) for path, folders in trials.items()}
            print({path.stem: rate for path, rate in rates.items()}, flush=True)
        for path, seed in in_turn(paths, args.seeds, args.slow):
            extra: tuple[object, ...] = ("--seed", seed)
            extra += ("--rate", rates[path]) if path in rates else ()
            extra += ("--seconds", args.seconds) if args.seconds is not None else ()
            extra += ("--steps", args.steps) if args.steps else ()
            pool.submit(start, args, path, args.runs / f"{path.stem}_{seed}", *extra)


def in_turn(paths: list[Path], seeds: list[int], slow: list[str]) -> list[tuple[Path, int]]:
    """List the runs: those that take longest first, then seed by seed."""
    first = [path for name in slow for path in paths if path.stem == name]
    runs = [(path, seed) for path in first for seed in seeds]
    return runs + [(path, seed) for seed in seeds for path in paths if path not in first]


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", type=Path, help="a folder of recipes, or one")
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", help="recipes by name")
    parser.add_argument("--slow", nargs="*", default=[], help="recipes by name, to start first")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rates", type=float, nargs="+")
    parser.add_argument("--search-steps", type=int, default=300)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    (train_one if args.one else train_all)(args)


if __name__ == "__main__":
    main()
