"""Families of bad input: banks, models, classifiers, caches; recipes, arguments, options; bombs."""

import os
import random
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np

from campaign.families.expanding_files import BOMBS
from campaign.families.family import OUT, Case, answered, called, family
from campaign.families.hostile_arrays import odd_calls
from campaign.families.mutations import WORDS, spoil, spoil_json, spoil_safetensors, spoil_zip
from campaign.forks import command
from campaign.seed_inputs import Seeds
from unitail.banks.bank import FeatureBank, find_banks
from unitail.banks.importer import CodedBank
from unitail.benchmark.suite_file import read_suite
from unitail.encoders.cache import FeatureCache
from unitail.estimator.classifier import TailClassifier
from unitail.learners.checkpoint import load_model
from unitail.training.recipe import read_recipe

VALUES = (
    "", "-1", "0", "nan", "inf", "1e999", "99999999999999999999", "x", "../..", "a" * 5000, "\n",
    "é", "\udcff", "/", ".", "..", "~", "/dev/null", "/dev/full", "/proc/self/mem", "-",
)  # fmt: skip
"""Values of options."""


@family("banks", 6, seeds="banks")
def banks(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Open a corrupted bank."""
    seeds.copy("banks", folder / "banks")
    path = generator.choice(sorted((folder / "banks" / "maker" / "bank").iterdir()))
    change = spoil_json if path.suffix == ".json" else spoil
    path.write_bytes(change(path.read_bytes(), generator))

    def read() -> None:
        for bank in find_banks(folder / "banks"):
            FeatureBank.open(bank).verify()

    return Case(("bank", generator.choice(["info", "check"]), "banks"), read=read)


@family("coded banks (npz)", 6, seeds="banks")
def coded_banks(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Import a corrupted archive."""
    seeds.copy("coded", folder / "coded")
    path = folder / "coded" / "maker" / "set.npz"
    path.write_bytes(spoil_zip(path.read_bytes(), generator))
    return Case(
        ("bank", "import", "coded", "--out", "banks"),
        read=lambda: list(CodedBank.open(path).chunks()),
    )


@family("model folders", 6, seeds="tables models")
def models(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Fit and predict with a corrupted model."""
    model = seeds.copy(f"models/{generator.choice(['tail', 'relational'])}", folder / "model")
    path = generator.choice(sorted(model.iterdir()))
    change = spoil_json if path.suffix == ".json" else spoil_safetensors
    path.write_bytes(change(path.read_bytes(), generator))
    table = seeds.folder / "table.csv"
    return replace(answered(table, table, "--model", "model"), read=lambda: load_model(model))


@family("saved classifiers", 8, seeds="tables models")
def classifiers(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Predict with a corrupted classifier."""
    which = generator.choice(["table", "table", "own"])
    saved = seeds.copy(f"classifiers/{which}", folder / "saved")
    path = generator.choice([each for each in sorted(saved.iterdir()) if each.suffix != ".md"])
    change = spoil_json if path.suffix == ".json" else spoil_safetensors
    path.write_bytes(change(path.read_bytes(), generator))
    arguments = ("predict", "--model", "saved", seeds.folder / "table.csv", "--out", OUT)

    def ask() -> None:
        loaded = TailClassifier.load(saved)
        if which == "table":
            return
        answers = loaded.predict_proba(np.zeros((3, loaded.n_features_in_)))
        if not np.isfinite(answers).all():
            raise AssertionError("answers are not finite")

    case = Case(arguments, out=OUT) if which == "table" else called(ask)
    return replace(case, read=ask)


@family("recipes and suites", 4)
def recipes(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Read a corrupted TOML file."""
    name = generator.choice(["recipe.toml", "suite.toml"])
    text = (seeds.folder / name).read_text()
    values = (
        *WORDS[:20],
        "1e999",
        "nan",
        "-1",
        "0",
        "[]",
        "{}",
        "[" * 3000,
        "10000000000000",
        "true",
    )
    for _ in range(generator.randint(1, 3)):
        lines = text.splitlines()
        at = generator.randrange(len(lines))
        key = lines[at].partition("=")[0]
        lines[at] = f"{key}= {generator.choice(values)}" if generator.random() < 0.7 else key
        text = "\n".join(lines)
    data = text.encode("utf-8", "replace")
    (folder / name).write_bytes(spoil(data, generator) if generator.random() < 0.2 else data)

    def read() -> None:
        (read_recipe if name == "recipe.toml" else read_suite)(folder / name)

    return replace(called(read), read=read)


@family("the classifier's arguments", 14)
def estimator(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Call the classifier with odd arrays, labels and parameters."""
    call = odd_calls(generator)
    return replace(called(call), read=call)


@family("options of commands", 5, "efficientnet-lite0", reads=False, seeds="tables images banks")
def options(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Pass odd values to a command."""
    value = generator.choice(VALUES)
    table = seeds.folder / "table.csv"
    base: list[object] = ["predict", table, table]
    choices: list[list[object]] = [
        *([*base, option, value] for option in (
            "--out", "--report", "--sort-into", "--model", "--encoder", "--device", "--top",
            "--coverage", "--modality", "--label-column", "--content-column", "--column", "--also",
            "--pool", "--sort-by",
        )),
        ["predict", value, table],
        ["predict", table, value],
        ["fit", table, "--save", value],
        ["evaluate", table, "--splits", 2, "--seed", value],
        ["evaluate", table, "--splits", 2, "--out", value],
        ["encode", seeds.folder / "images", "--out", value],
        ["encode", seeds.folder / "images", "--out", "b", "--name", value, "--licence", value],
        ["bank", "info", value],
        ["bank", "import", value, "--out", "b"],
        ["bank", "import", seeds.folder / "coded", "--out", "b", "--encoder", value],
        ["train", value],
        ["compare", value, "a", "b"],
        ["bench", "--suite", value],
        ["bench", "--suite", seeds.folder / "suite.toml", "--banks", value, "--out", "o"],
        ["bench", "--suite", seeds.folder / "suite.toml", "--banks", seeds.folder / "banks",
         "--runs", "none", "--out", "o", "--seed", value],
        ["data", "info", value],
        ["data", "prepare", "cub", "--root", value],
        ["export", value, "--onnx", "x.onnx"],
    ]  # fmt: skip
    return Case(tuple(generator.choice(choices)))


@family("feature caches", 3, "efficientnet-lite0", seeds="images")
def caches(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Use a corrupted cache, which may cost time but must not change predictions."""
    path = folder / "cache" / "features-1.sqlite"
    path.parent.mkdir()
    with sqlite3.connect(os.environ["UNITAIL_CACHE"] + "/features-1.sqlite") as connection:
        connection.execute("VACUUM INTO ?", (str(path),))
    if generator.random() < 0.5:
        path.write_bytes(spoil(path.read_bytes(), generator))
    else:
        odd = generator.choice([None, "text", 3, b"", -1.5])
        column = generator.choice(["vector", "checksum", "used", "encoder"])
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE OR IGNORE vectors SET {column} = ?", (odd,))
        connection.close()
    (folder / "query.png").write_bytes(seeds.images["png"])
    case = answered(seeds.folder / "images", "query.png", rows=1)

    def run() -> None:
        os.environ["UNITAIL_CACHE"] = str(path.parent)
        command(*(case.arguments if generator.random() < 0.8 else ("cache", "info")))()

    def read() -> None:
        cache = FeatureCache(path.parent)
        with sqlite3.connect(os.environ["UNITAIL_CACHE"] + "/features-1.sqlite") as known:
            rows = known.execute(
                "SELECT fingerprint, content FROM vectors, encoders WHERE id = encoder"
            )
            for fingerprint, content in rows.fetchall():
                cache.get_many(fingerprint, [content])
                cache.put_many(fingerprint, {content: np.zeros(3, np.float32)})
        known.close()
        cache.info()

    return Case(work=run, read=read)


@family("bombs", 3, "efficientnet-lite0", "log-mel", reads=False, seeds="images sounds")
def bombs(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Open small files that expand to huge ones."""
    kind = generator.choice(sorted(BOMBS))
    name, content = BOMBS[kind](generator)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    if name.endswith(".npz"):
        return Case(("bank", "import", name, "--out", "banks"))
    if name.endswith((".xlsx", ".parquet", ".csv", ".jsonl")):
        return answered(name, name)
    kind = "sounds" if name.endswith(".wav") else "images"
    if kind == "images":  # several, since they are read side by side
        for number in range(8):
            (folder / "many" / f"{number}.{name.rpartition('.')[2]}").parent.mkdir(exist_ok=True)
            path = folder / "many" / f"{number}.{name.rpartition('.')[2]}"
            path.write_bytes(content + bytes([number]))
        return answered(seeds.folder / kind, "many", rows=8)
    return answered(seeds.folder / kind, name, rows=1)
