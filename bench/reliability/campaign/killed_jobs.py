"""The jobs that `kills.py` kills, and how each kill is judged."""

import csv
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from campaign.forks import command, tree
from campaign.seed_inputs import RECIPE, Seeds
from unitail.banks.bank import FeatureBank
from unitail.banks.manifest import BankManifest, FeatureType
from unitail.banks.writer import BankWriter
from unitail.estimator.classifier import TailClassifier
from unitail.training.run_folder import RunFolder


@dataclass(frozen=True)
class Job:
    """A job to be killed."""

    name: str
    work: Callable[[], object]
    """Runs or resumes the job in the folder it is called in."""
    check: Callable[[Path], str]
    """Returns what is wrong with the folder after a kill; empty if nothing is."""
    result: Callable[[Path], object]
    """Returns a digest of the final result."""
    resumes: bool = True
    """Whether the job resumes; otherwise each run starts anew."""


def training() -> Job:
    """Return a training run of some seconds that saves every other step."""
    recipe = RECIPE.replace("steps = 12", "steps = 60").replace(
        "checkpoint_every = 4", "checkpoint_every = 2"
    )

    def work() -> None:
        Path("recipe.toml").write_text(recipe)
        command("train", "recipe.toml", "--out", "run", "--cpu")()

    def check(folder: Path) -> str:
        run = RunFolder(folder / "run")
        try:
            for checkpoint in run.checkpoints():
                run.load(checkpoint)
        except Exception as error:
            return f"a checkpoint is not whole: {error}"
        return ""

    def result(folder: Path) -> object:
        names = ("run/model/model.safetensors", "run/best/model.safetensors")
        hashes = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names]
        log = [json.loads(line) for line in (folder / "run/log.jsonl").read_text().splitlines()]
        return hashes, [(entry["step"], entry.get("loss"), entry.get("score")) for entry in log]

    return Job("training", work, check, result)


def bank() -> Job:
    """Return the writing of a bank in 60 chunks, each recorded."""
    rows, width = 300, 16
    manifest = BankManifest(
        name="bank", encoder="maker", rows=rows, feature_dim=width, dtype=FeatureType.FLOAT32
    )

    def work() -> None:
        if Path("bank").exists():  # it was whole when the kill came
            return
        with BankWriter("bank", manifest, ["a", "b"], record_seconds=0) as writer:
            for start_row in range(writer.rows_written, rows, 5):
                numbers = np.arange(start_row, start_row + 5, dtype=np.float32)
                writer.append(np.outer(numbers, np.ones(width)), np.arange(5) % 2)

    def check(folder: Path) -> str:
        try:
            if (folder / "bank").exists():
                FeatureBank.open(folder / "bank").verify()
        except Exception as error:
            return f"a bank is not whole: {error}"
        return ""

    def result(folder: Path) -> object:
        made = FeatureBank.open(folder / "bank")
        return made.fingerprint, made.class_names

    return Job("bank", work, check, result)


def predict(seeds: Seeds) -> Job:
    """Predictions of a table that replace those of another."""
    table = seeds.folder / "table.csv"
    old = "old answers\n"

    def work() -> None:
        if not Path("out.csv").exists():
            Path("out.csv").write_text(old)
        command("predict", table, table, "--out", "out.csv", "--report", "page.html")()

    def check(folder: Path) -> str:
        path = folder / "out.csv"
        if not path.exists() or path.read_text() in ("", old):
            return ""
        lines = path.read_text().splitlines()
        return "" if len(lines) == 11 and lines[0].startswith("size,") else "half of the answers"

    def result(folder: Path) -> object:
        return (folder / "out.csv").read_bytes()

    return Job("predict --out", work, check, result, resumes=False)


def fit(seeds: Seeds) -> Job:
    """Return the saving of a classifier over another."""
    table = seeds.folder / "table.csv"

    def work() -> None:
        command("fit", table, "--save", "saved")()

    def check(folder: Path) -> str:
        try:
            if any((folder / name).exists() for name in ("saved", ".saved.old")):
                TailClassifier.load(folder / "saved")
        except Exception as error:
            return f"a classifier is not whole: {error}"
        return ""

    def result(folder: Path) -> object:
        return {name: value for name, value in tree(folder).items() if "README" not in name}

    return Job("fit --save", work, check, result, resumes=False)


def bench(seeds: Seeds) -> Job:
    """Return a benchmark of two protocols and three learners."""
    suite = (seeds.folder / "suite.toml").read_text()
    suite = suite.replace("shots = [1]", "shots = [1, 2, 3]").replace(
        "episodes = 4", "episodes = 8"
    )
    suite = suite.replace('["proto_head"]', '["proto_head_centred", "linear_probe_tuned"]')

    def work() -> None:
        Path("small.toml").write_text(suite)
        command("bench", "--suite", "small.toml", "--banks", seeds.folder / "banks", "--runs",
                "none", "--out", "results", "--device", "cpu")()  # fmt: skip

    def result(folder: Path) -> object:
        lines = (folder / "results" / "summary.csv").read_text().splitlines()
        measured = ("ms", "mib")  # differ from run to run
        return [
            {name: cell for name, cell in row.items() if name not in measured}
            for row in csv.DictReader(lines)
        ]

    return Job("bench", work, lambda folder: "", result)
