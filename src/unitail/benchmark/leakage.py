"""Proof that a trained model has not seen what it is tested on."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from unitail.banks.bank import FeatureBank
from unitail.banks.splits import split_classes
from unitail.benchmark.suites import HELD_OUT, SPLIT_SEED, BenchTable
from unitail.errors import InvalidCheckpoint, Leakage

RECIPE_FILE = "recipe.json"
NAMED = 3
"""The most classes that a message names."""


def check_not_trained_on(run: Path, tables: Iterable[BenchTable]) -> None:
    """Refuse tables with classes that the run's recipe trains on, in any encoder's features.

    A folder without a recipe says nothing about its training, and nothing can be checked.
    """
    path = run / RECIPE_FILE
    if not path.exists():
        return
    record = _read(path)
    for table in tables:
        trained = _trained_classes(record, table.bank)
        shared = [name for name in table.table.class_names if name in trained]
        if shared:
            raise Leakage(
                f"{run.name} was trained on classes of {table.name}, which is to test it",
                got=f"{len(shared)} in common: {', '.join(shared[:NAMED])}"
                + (", ..." if len(shared) > NAMED else ""),
                allowed="no class in both",
                remedy="Leave the run out (name the others with --learner), or train it again"
                f" without the data set, or with the held-out classes of `held_out` = {HELD_OUT}"
                f" and `seed` = {SPLIT_SEED}.",
            )


def _trained_classes(record: Mapping[str, Any], bank: FeatureBank) -> set[str]:
    """List the classes of a bank's data set that a run has seen; names count, not encoders."""
    data_sets = {name.split("/", 1)[1] for name in record["data"]}
    recipe = record["recipe"]
    choices = [source for source in recipe["sources"] if "banks" in source]
    seen: set[str] = set()
    for choice in choices if bank.name in data_sets else ():
        if choice["data_set_weights"].get(bank.name) == 0:
            continue
        if bank.name in choice["held_out_from"]:
            part, _ = split_classes(bank, choice["held_out"], recipe["training"]["seed"])
            seen |= set(part.class_names)
        else:
            seen |= set(bank.class_names)
    return seen


def _read(path: Path) -> Mapping[str, Any]:
    try:
        record: Mapping[str, Any] = json.loads(path.read_text())
        complete = "sources" in record["recipe"] and "data" in record
    except (OSError, ValueError, KeyError, TypeError):
        complete = False
    if not complete:
        raise InvalidCheckpoint(
            f"{path} does not say what the model was trained on",
            got="something else",
            allowed="the file that training wrote",
            remedy="Leave the run out, or train it again.",
        )
    return record
