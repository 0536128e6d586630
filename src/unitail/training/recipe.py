"""A recipe: one TOML file that says all about a training run."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unitail.configuration import from_table, to_table
from unitail.errors import InvalidConfig
from unitail.tail.config import TailConfig, preset
from unitail.tasks.synthetic import GaussianTasks
from unitail.training.config import TrainingConfig

PARTS = ("model", "tasks", "training")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The model, the tasks it is trained on, and how."""

    model: TailConfig
    tasks: GaussianTasks
    training: TrainingConfig

    def __post_init__(self) -> None:
        if self.training.ways[1] > self.model.dictionary_size:
            raise InvalidConfig(
                "training.ways asks for more classes than the dictionary has slots",
                got=self.training.ways[1],
                allowed=f"at most {self.model.dictionary_size}",
            )


def read_recipe(path: Path | str) -> Recipe:
    """Read a recipe; every key must be known."""
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text())
    except OSError as error:
        raise InvalidConfig(
            "the recipe cannot be read", got=f"{path}: {error.strerror}", allowed="a TOML file"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig(
            f"{path} is not valid TOML", got=str(error), allowed="TOML 1.0"
        ) from error
    if set(table) != set(PARTS):
        raise InvalidConfig(
            f"{path} does not have the parts of a recipe",
            got=", ".join(f"[{name}]" for name in table) or "none",
            allowed=", ".join(f"[{name}]" for name in PARTS),
        )
    return Recipe(
        model=_model_config(table["model"]),
        tasks=from_table(GaussianTasks, table["tasks"], "tasks"),
        training=from_table(TrainingConfig, table["training"], "training"),
    )


def _model_config(table: dict[str, Any]) -> TailConfig:
    """Start from the preset that the table names, if any, and change what it states."""
    changes = dict(table)
    base = preset(changes.pop("preset", "paper"))
    return from_table(TailConfig, {**to_table(base), **changes}, "model")
