"""Families of bad input: images, sounds, tables, and files of hostile names."""

import io
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from campaign.families.family import Case, answered, family
from campaign.families.mutations import NAMES, spoil, spoil_json, spoil_lines, spoil_zip
from campaign.seed_inputs import CLASSES, Seeds
from unitail.encoders.images import read_image
from unitail.encoders.sounds import read_sound
from unitail.inputs.read import read_labelled


@family("images", 14, "efficientnet-lite0", seeds="images")
def images(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Predict a corrupted image."""
    name = generator.choice(sorted(seeds.images))
    path = folder / f"query.{name.rpartition('.')[2]}"
    path.write_bytes(spoil(seeds.images[name], generator))
    return replace(
        answered(seeds.folder / "images", path.name, rows=1), read=lambda: read_image(path)
    )


@family("sounds", 10, "log-mel", seeds="sounds")
def sounds(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Predict a corrupted sound."""
    suffix = generator.choice(sorted(seeds.sounds))
    path = folder / f"query.{suffix}"
    path.write_bytes(spoil(seeds.sounds[suffix], generator))
    return replace(
        answered(seeds.folder / "sounds", path.name, rows=1), read=lambda: read_sound(path, 16_000)
    )


@family("CSV", 10, seeds="tables")
def tables_csv(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Fit on or predict a corrupted table."""
    suffix = generator.choice(["csv", "csv", "tsv"])
    (folder / f"bad.{suffix}").write_bytes(spoil_lines(seeds.csv, generator))
    return _either(seeds, folder / f"bad.{suffix}", generator)


@family("texts in CSV", 4, "minilm", seeds="texts")
def tables_of_texts(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Fit on or predict corrupted texts."""
    (folder / "bad.csv").write_bytes(spoil_lines(seeds.tables["texts"].decode(), generator))
    good = seeds.folder / "texts.csv"
    pair = ("bad.csv", good) if generator.random() < 0.5 else (good, "bad.csv")
    return replace(answered(*pair), read=lambda: read_labelled(folder / "bad.csv"))


@family("JSON lines", 6, seeds="tables")
def tables_jsonl(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Fit on or predict corrupted JSON lines."""
    lines = seeds.tables["jsonl"].splitlines()
    for at in generator.sample(range(len(lines)), generator.randint(1, 3)):
        lines[at] = spoil_json(lines[at], generator)
    (folder / "bad.jsonl").write_bytes(b"\n".join(lines))
    return _either(seeds, folder / "bad.jsonl", generator)


@family("Parquet", 7, seeds="tables")
def tables_parquet(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Fit on or predict a Parquet file that is corrupted or has rare types."""
    content = seeds.tables["parquet"]
    content = spoil(content, generator) if generator.random() < 0.6 else _rare_parquet(generator)
    (folder / "bad.parquet").write_bytes(content)
    return _either(seeds, folder / "bad.parquet", generator)


@family("Excel", 5, seeds="tables sheets")
def tables_xlsx(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Fit on or predict a corrupted sheet."""
    (folder / "bad.xlsx").write_bytes(spoil_zip(seeds.tables["xlsx"], generator))
    return _either(seeds, folder / "bad.xlsx", generator)


def _either(seeds: Seeds, path: Path, generator: random.Random) -> Case:
    """Fit on a table or predict it."""
    good, bad, roll = seeds.folder / "table.csv", path.name, generator.random()
    if roll < 0.1:
        case = Case(("evaluate", bad, "--splits", 2))
    elif roll < 0.2:
        case = Case(("fit", bad, "--save", "saved"))
    else:
        case = answered(bad, good) if roll < 0.6 else answered(good, bad)
    return replace(case, read=lambda: read_labelled(path))


def _rare_parquet(generator: random.Random) -> bytes:
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
    names = generator.choice(
        [["a", "b"], ["a", "a"], ["", "b"], ["label ", "b"], ["answer", "set"]]
    )
    columns = [generator.choice(kinds), generator.choice(kinds), pa.array([*CLASSES] * 5)]
    file = io.BytesIO()
    pq.write_table(pa.table(columns, names=[*names, "label"]), file)
    return file.getvalue()


@family("file and class names", 6, "efficientnet-lite0", reads=False, seeds="images")
def names(seeds: Seeds, folder: Path, generator: random.Random) -> Case:
    """Fit on, predict and write files with hostile names."""
    picture = seeds.images["png"]
    source = folder / "files"
    for label in generator.sample(NAMES, 2):
        for _ in range(2):
            path = source / label.replace("/", "_") / f"{generator.choice(NAMES)}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture + generator.randbytes(4))
    query = folder / f"{generator.choice(NAMES)}.png"
    query.write_bytes(picture)
    out = f"{generator.choice(NAMES)}.csv"
    more: list[object] = ["--report", f"{generator.choice(NAMES)}.html"]
    more += ["--sort-into", generator.choice(NAMES)] if generator.random() < 0.5 else []
    arguments = ["predict", f"--out={out}", *more, "--", "files", f"./{query.name}"]
    return Case(tuple(arguments), out=out if generator.random() < 0.9 else None, rows=1)
