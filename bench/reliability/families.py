"""The families of bad input: each makes a case of a seed and a number."""

import io
import os
import random
import sqlite3
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from bombs import BOMBS
from campaign import command
from hostile_arrays import odd_calls
from mutations import (
    NAMES,
    WORDS,
    spoil,
    spoil_json,
    spoil_lines,
    spoil_safetensors,
    spoil_zip,
)
from seeds import CLASSES, Seeds

from unitail.banks.bank import FeatureBank, find_banks
from unitail.banks.importer import CodedBank
from unitail.benchmark.suite_file import read_suite
from unitail.encoders.cache import FeatureCache
from unitail.encoders.images import read_image
from unitail.encoders.sounds import read_sound
from unitail.errors import UserError
from unitail.estimator.classifier import TailClassifier
from unitail.inputs.read import read_labelled
from unitail.learners.checkpoint import load_model
from unitail.training.recipe import read_recipe

OUT = "out.csv"
VALUES = (
    "", "-1", "0", "nan", "inf", "1e999", "99999999999999999999", "x", "../..", "a" * 5000, "\n",
    "é", "\udcff", "/", ".", "..", "~", "/dev/null", "/dev/full", "/proc/self/mem", "-",
)  # fmt: skip
"""Of options."""


@dataclass
class Case:
    """Something to run in a folder, and what it may leave there."""

    arguments: tuple[object, ...] = ()
    work: Callable[[], object] | None = None
    """In place of the command."""
    out: str | None = None
    """The file of answers."""
    rows: int | None = None
    """How many it must have, if that is known."""
    kept: set[str] = field(default_factory=set)
    """What was there before."""
    read: Callable[[], object] | None = None
    """Reads the same input in Python, far sooner than the command."""


Make = Callable[[Seeds, Path, random.Random], Case]


@dataclass(frozen=True)
class Family:
    """Cases of one kind."""

    name: str
    title: str
    weight: int
    make: Make
    reads: bool
    """Whether its inputs are read in Python, too."""
    encoders: tuple[str, ...]
    """Those that its commands use."""
    seeds: tuple[str, ...]
    """The kinds of sound inputs that it needs."""

    def __call__(self, seeds: Seeds, folder: Path, chance: random.Random) -> Case:
        """Make a case in a folder."""
        return self.make(seeds, folder, chance)


FAMILIES: list[Family] = []


def family(
    title: str, weight: int, *encoders: str, seeds: str = "", reads: bool = True
) -> Callable[[Make], Make]:
    """Put a function among the families; so many of 100 commands are of it."""

    def keep(make: Make) -> Make:
        kinds = tuple(seeds.split())
        FAMILIES.append(Family(make.__name__, title, weight, make, reads, encoders, kinds))
        return make

    return keep


def answered(examples: object, query: object, *more: object, rows: int | None = None) -> Case:
    """Return a case of `unitail predict`."""
    arguments = ("predict", examples, query, "--out", OUT, *more)
    return Case(arguments, out=OUT, rows=rows)


def called(work: Callable[[], object]) -> Case:
    """Return a case of a call in Python, whose errors are told as the command tells them."""

    def run() -> None:
        warnings.simplefilter("default")
        try:
            work()
        except (UserError, ValueError, TypeError) as error:
            if not str(error).strip():
                raise
            text = str(error).replace("\n", " ")
            print(f"unitail: {text}", file=sys.stderr)
            raise SystemExit(2) from None

    return Case(work=run)


@family("images", 14, "efficientnet-lite0", seeds="images")
def images(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Ask for a spoiled image."""
    name = chance.choice(sorted(seeds.images))
    path = folder / f"query.{name.rpartition('.')[2]}"
    path.write_bytes(spoil(seeds.images[name], chance))
    return replace(
        answered(seeds.folder / "images", path.name, rows=1), read=lambda: read_image(path)
    )


@family("sounds", 10, "log-mel", seeds="sounds")
def sounds(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Ask for a spoiled sound."""
    suffix = chance.choice(sorted(seeds.sounds))
    path = folder / f"query.{suffix}"
    path.write_bytes(spoil(seeds.sounds[suffix], chance))
    return replace(
        answered(seeds.folder / "sounds", path.name, rows=1), read=lambda: read_sound(path, 16_000)
    )


@family("CSV", 10, seeds="tables")
def tables_csv(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Learn from a spoiled table, or ask for one."""
    suffix = chance.choice(["csv", "csv", "tsv"])
    (folder / f"bad.{suffix}").write_bytes(spoil_lines(seeds.csv, chance))
    return _either(seeds, folder / f"bad.{suffix}", chance)


@family("texts in CSV", 4, "minilm", seeds="texts")
def tables_of_texts(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Learn from spoiled texts, or ask for them."""
    (folder / "bad.csv").write_bytes(spoil_lines(seeds.tables["texts"].decode(), chance))
    good = seeds.folder / "texts.csv"
    pair = ("bad.csv", good) if chance.random() < 0.5 else (good, "bad.csv")
    return replace(answered(*pair), read=lambda: read_labelled(folder / "bad.csv"))


@family("JSON lines", 6, seeds="tables")
def tables_jsonl(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Learn from spoiled lines, or ask for them."""
    lines = seeds.tables["jsonl"].splitlines()
    for at in chance.sample(range(len(lines)), chance.randint(1, 3)):
        lines[at] = spoil_json(lines[at], chance)
    (folder / "bad.jsonl").write_bytes(b"\n".join(lines))
    return _either(seeds, folder / "bad.jsonl", chance)


@family("Parquet", 7, seeds="tables")
def tables_parquet(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Learn from a spoiled Parquet file, or from one of rare types, or ask for it."""
    content = seeds.tables["parquet"]
    content = spoil(content, chance) if chance.random() < 0.6 else _rare_parquet(chance)
    (folder / "bad.parquet").write_bytes(content)
    return _either(seeds, folder / "bad.parquet", chance)


@family("Excel", 5, seeds="tables sheets")
def tables_xlsx(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Learn from a spoiled sheet, or ask for it."""
    (folder / "bad.xlsx").write_bytes(spoil_zip(seeds.tables["xlsx"], chance))
    return _either(seeds, folder / "bad.xlsx", chance)


def _either(seeds: Seeds, path: Path, chance: random.Random) -> Case:
    """Learn from a table, or ask for it."""
    good, bad, roll = seeds.folder / "table.csv", path.name, chance.random()
    if roll < 0.1:
        case = Case(("evaluate", bad, "--splits", 2))
    elif roll < 0.2:
        case = Case(("fit", bad, "--save", "saved"))
    else:
        case = answered(bad, good) if roll < 0.6 else answered(good, bad)
    return replace(case, read=lambda: read_labelled(path))


def _rare_parquet(chance: random.Random) -> bytes:
    import datetime
    import decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds: list[Any] = [
        pa.array([None] * 10),
        pa.array([b"\xff\xfe"] * 10),
        pa.array([[1, 2]] * 10),
        pa.array([{"a": 1}] * 10),
        pa.array([decimal.Decimal("1e30")] * 10),
        pa.array([2**63 - 1] * 10).cast(pa.timestamp("us")),
        pa.array([2**52] * 10).cast(pa.timestamp("s")),
        pa.array([-(2**31)] * 10, pa.int32()).cast(pa.date32()),
        pa.array([datetime.time(1)] * 10),
        pa.array([1] * 10, pa.duration("ns")),
        pa.array([2**63 - 1] * 10, pa.timestamp("ns", tz="UTC")),
        pa.array(["x"] * 10).dictionary_encode(),
        pa.array([float("nan"), float("inf")] * 5),
        pa.array([True, None] * 5),
        pa.array(["a" * 100_000] * 10),
        pa.array([2**64 - 1] * 10, pa.uint64()),
    ]
    names = chance.choice([["a", "b"], ["a", "a"], ["", "b"], ["label ", "b"], ["answer", "set"]])
    columns = [chance.choice(kinds), chance.choice(kinds), pa.array([*CLASSES] * 5)]
    file = io.BytesIO()
    pq.write_table(pa.table(columns, names=[*names, "label"]), file)
    return file.getvalue()


@family("file and class names", 6, "efficientnet-lite0", reads=False, seeds="images")
def names(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Learn from, ask for and write files of hostile names."""
    picture = seeds.images["png"]
    source = folder / "files"
    for label in chance.sample(NAMES, 2):
        for _ in range(2):
            path = source / label.replace("/", "_") / f"{chance.choice(NAMES)}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture + chance.randbytes(4))
    query = folder / f"{chance.choice(NAMES)}.png"
    query.write_bytes(picture)
    out = f"{chance.choice(NAMES)}.csv"
    more: list[object] = ["--report", f"{chance.choice(NAMES)}.html"]
    more += ["--sort-into", chance.choice(NAMES)] if chance.random() < 0.5 else []
    arguments = ["predict", f"--out={out}", *more, "--", "files", f"./{query.name}"]
    return Case(tuple(arguments), out=out if chance.random() < 0.9 else None, rows=1)


@family("banks", 6, seeds="banks")
def banks(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Open a spoiled bank."""
    seeds.copy("banks", folder / "banks")
    path = chance.choice(sorted((folder / "banks" / "maker" / "bank").iterdir()))
    change = spoil_json if path.suffix == ".json" else spoil
    path.write_bytes(change(path.read_bytes(), chance))

    def read() -> None:
        for bank in find_banks(folder / "banks"):
            FeatureBank.open(bank).verify()

    return Case(("bank", chance.choice(["info", "check"]), "banks"), read=read)


@family("coded banks (npz)", 6, seeds="banks")
def coded_banks(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Import a spoiled archive."""
    seeds.copy("coded", folder / "coded")
    path = folder / "coded" / "maker" / "set.npz"
    path.write_bytes(spoil_zip(path.read_bytes(), chance))
    return Case(
        ("bank", "import", "coded", "--out", "banks"),
        read=lambda: list(CodedBank.open(path).chunks()),
    )


@family("model folders", 6, seeds="tables models")
def models(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Learn and ask with a spoiled model."""
    model = seeds.copy(f"models/{chance.choice(['tail', 'relational'])}", folder / "model")
    path = chance.choice(sorted(model.iterdir()))
    change = spoil_json if path.suffix == ".json" else spoil_safetensors
    path.write_bytes(change(path.read_bytes(), chance))
    table = seeds.folder / "table.csv"
    return replace(answered(table, table, "--model", "model"), read=lambda: load_model(model))


@family("saved classifiers", 8, seeds="tables models")
def classifiers(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Ask a spoiled classifier."""
    which = chance.choice(["table", "table", "own"])
    saved = seeds.copy(f"classifiers/{which}", folder / "saved")
    path = chance.choice([each for each in sorted(saved.iterdir()) if each.suffix != ".md"])
    change = spoil_json if path.suffix == ".json" else spoil_safetensors
    path.write_bytes(change(path.read_bytes(), chance))
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
def recipes(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Read a spoiled TOML file."""
    name = chance.choice(["recipe.toml", "suite.toml"])
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
    for _ in range(chance.randint(1, 3)):
        lines = text.splitlines()
        at = chance.randrange(len(lines))
        key = lines[at].partition("=")[0]
        lines[at] = f"{key}= {chance.choice(values)}" if chance.random() < 0.7 else key
        text = "\n".join(lines)
    data = text.encode("utf-8", "replace")
    (folder / name).write_bytes(spoil(data, chance) if chance.random() < 0.2 else data)

    def read() -> None:
        (read_recipe if name == "recipe.toml" else read_suite)(folder / name)

    return replace(called(read), read=read)


@family("the classifier's arguments", 14)
def estimator(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Give the classifier odd arrays, labels and parameters."""
    call = odd_calls(chance)
    return replace(called(call), read=call)


@family("options of commands", 5, "efficientnet-lite0", reads=False, seeds="tables images banks")
def options(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Give a command odd values."""
    value = chance.choice(VALUES)
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
    return Case(tuple(chance.choice(choices)))


@family("feature caches", 3, "efficientnet-lite0", seeds="images")
def caches(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Use a spoiled cache: it costs time, never an answer."""
    path = folder / "cache" / "features-1.sqlite"
    path.parent.mkdir()
    with sqlite3.connect(os.environ["UNITAIL_CACHE"] + "/features-1.sqlite") as connection:
        connection.execute("VACUUM INTO ?", (str(path),))
    if chance.random() < 0.5:
        path.write_bytes(spoil(path.read_bytes(), chance))
    else:
        odd = chance.choice([None, "text", 3, b"", -1.5])
        column = chance.choice(["vector", "checksum", "used", "encoder"])
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE OR IGNORE vectors SET {column} = ?", (odd,))
        connection.close()
    (folder / "query.png").write_bytes(seeds.images["png"])
    case = answered(seeds.folder / "images", "query.png", rows=1)

    def run() -> None:
        os.environ["UNITAIL_CACHE"] = str(path.parent)
        command(*(case.arguments if chance.random() < 0.8 else ("cache", "info")))()

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
def bombs(seeds: Seeds, folder: Path, chance: random.Random) -> Case:
    """Open small files that stand for huge ones."""
    kind = chance.choice(sorted(BOMBS))
    name, content = BOMBS[kind](chance)
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
