"""Train every recipe of a folder with several seeds, several runs at a time.

All runs use the steps of their recipe, or `--steps`. With `--seconds` each run gets as many steps
as fit into this time next to the others, so that recipes get equal time rather than equal steps.
With `--rates` each recipe is first tried with each learning rate for `--search-steps`, and then
trained with the rate that is best on held-out classes. Finished runs are skipped, and interrupted
ones resume from their last checkpoint.

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
"""Number of steps that are timed, and of warm-up steps before."""


def affordable(recipe: Recipe, seconds: float, args: argparse.Namespace) -> int:
    """Return the number of steps that fit into a time, given the current load."""
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
    """Train one recipe in its own process, unless it has been trained before."""
    if (folder / "model").exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, recipe, "--one", "--banks", args.banks, "--runs", folder]
    command += [*extra, *(["--cpu"] if args.cpu else [])]
    started = time.perf_counter()
    log = folder.parent / f"{folder.name}.txt"
    with log.open("w") as file:
        code = subprocess.run(
            [str(word) for word in command], check=False, stdout=file, stderr=file
        ).returncode
    seconds = time.perf_counter() - started
    print(f"{folder.name}: {'done' if code == 0 else 'FAILED'} in {seconds:.0f} s", flush=True)


def best_rate(folders: dict[float, Path]) -> float:
    """Return the learning rate whose run has the best final validation."""
    scores = {}
    for rate, folder in folders.items():
        entries = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
        scores[rate] = [entry["score"] for entry in entries if "score" in entry][-1]
    return max(scores, key=lambda rate: scores[rate])


def train_all(args: argparse.Namespace) -> None:
    """Train all recipes, several at a time."""
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
            futures = [
                pool.submit(start, args, path, folder, "--rate", rate, *trial)
                for path, folders in trials.items()
                for rate, folder in folders.items()
            ]
            for future in futures:
                future.result()
            rates = {path: best_rate(folders) for path, folders in trials.items()}
            print({path.stem: rate for path, rate in rates.items()}, flush=True)
        for path, seed in in_turn(paths, args.seeds, args.slow):
            extra: tuple[object, ...] = ("--seed", seed)
            extra += ("--rate", rates[path]) if path in rates else ()
            extra += ("--seconds", args.seconds) if args.seconds is not None else ()
            extra += ("--steps", args.steps) if args.steps else ()
            pool.submit(start, args, path, args.runs / f"{path.stem}_{seed}", *extra)


def in_turn(paths: list[Path], seeds: list[int], slow: list[str]) -> list[tuple[Path, int]]:
    """Return the runs in order: slow recipes first, then seed by seed."""
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
