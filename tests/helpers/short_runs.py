"""Short training runs for tests, in this process or in others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from helpers.forks import COMMAND, fork_group
from unitail.training.data import build_sources
from unitail.training.processes import Processes
from unitail.training.recipe import Recipe, read_recipe, recipe_from_table
from unitail.training.run_log import Entry, RunLog
from unitail.training.trainer import Trainer

TABLE: dict[str, Any] = {
    "model": {
        "preset": "tiny",
        "projected_dim": 16,
        "label_dim": 8,
        "hidden_dim": 24,
        "layers": 2,
        "heads": 2,
        "mlp_dim": 32,
        "dictionary_size": 6,
    },
    "episodes": {"ways": [2, 4], "shots": [1, 2], "queries": 2, "tokens": 160},
    "sources": {"gaussian": {"feature_dims": [8, 12]}},
    "training": {"steps": 12, "learning_rate": 1e-2, "checkpoint_every": 4, "report_every": 2},
    "validation": {"every": 6, "episodes": 16, "ways": 3, "shots": [1], "queries": 2},
}


def tables(**changes: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of a recipe of a few steps, with some keys of some tables changed."""
    model = changes.pop("model", {})
    merged = {name: {**table, **changes.pop(name, {})} for name, table in TABLE.items()}
    merged["model"] = model if "learner" in model else {**TABLE["model"], **model}
    return {**merged, **changes}


def short_recipe(**changes: dict[str, Any]) -> Recipe:
    """Return a recipe of a few steps, with some keys of some tables changed."""
    return recipe_from_table(tables(**changes), "test")


def write_recipe(path: Path, **changes: dict[str, Any]) -> Path:
    """Write the same recipe as TOML."""
    lines = []
    for name, table in tables(**changes).items():
        nested = {f"sources.{kind}": fields for kind, fields in table.items()}
        for header, fields in nested.items() if name == "sources" else ((name, table),):
            lines.append(f"[{header}]")
            lines += [f"{key} = {_toml(value)}" for key, value in fields.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def train_here(recipe: Path, out: Path, *, banks: Path | None = None) -> Path:
    """Train, or go on, in this process: much sooner than in a new one."""
    table = read_recipe(recipe)
    Trainer(table, out, build_sources(table, banks), processes=Processes(cpu=True)).run()
    return out


def train_in_two(recipe: Path, out: Path, *options: str) -> str:
    """Train in two processes, and return what they say."""
    arguments = ["train", recipe, "--out", out, "--cpu", *options]
    return fork_group(COMMAND, *arguments, output=out.with_suffix(".output"))


def weights(folder: Path) -> dict[str, Tensor]:
    """Read the weights of a model folder."""
    return load_file(folder / "model.safetensors")


def same_weights(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Tell whether two models have the same weights, all of them."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def entries(folder: Path) -> list[Entry]:
    """Read the log of a run."""
    return RunLog(folder).read()
