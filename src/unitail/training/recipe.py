"""Recipes: one TOML file specifies a whole training run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from unitail.banks.bank import bank_matches
from unitail.configuration import from_table, read_toml
from unitail.errors import InvalidConfig, require
from unitail.learners.registry import model_config, model_kind
from unitail.nn.episode_model import ModelConfig
from unitail.tasks.batches import EpisodeRanges
from unitail.tasks.synthetic.bags import RandomBagTasks
from unitail.tasks.synthetic.gaussian import GaussianTasks
from unitail.tasks.synthetic.networks import RandomNetworkTasks
from unitail.tasks.synthetic.tables import RandomTableTasks
from unitail.training.config import TrainingConfig, ValidationConfig

HELD_OUT = 0.2
"""Default share of the classes that a recipe keeps out of training."""


@dataclass(frozen=True, kw_only=True)
class BankChoice:
    """Feature banks to train on, and the classes held out for validation."""

    banks: tuple[str, ...]
    """Patterns ENCODER/DATASET of banks in the folder, for instance "efflite0/*"."""
    held_out_from: tuple[str, ...]
    """Data sets with held-out classes, the same ones for every encoder."""
    held_out: float = HELD_OUT
    """Share of their classes that is held out of training, for validation."""
    data_set_weights: dict[str, float] = field(default_factory=dict)
    """Sampling weights of data sets, by name; the default is a data set's number of classes."""
    disguised: float = 0.0
    """Share of batches whose features and classes are disguised; see `tasks/augmentation.py`."""

    def __post_init__(self) -> None:
        for name in ("banks", "held_out_from"):
            require(bool(getattr(self, name)), name, got="none", allowed="one or more")
        require(0 < self.held_out < 1, "held_out", got=self.held_out, allowed="between 0 and 1")
        require(
            0 <= self.disguised <= 1, "disguised", got=self.disguised, allowed="between 0 and 1"
        )

    def matches(self, bank: str) -> bool:
        """Return whether ENCODER/DATASET matches one of the patterns."""
        return any(bank_matches(bank, pattern) for pattern in self.banks)


SOURCE_KINDS = {
    "gaussian": GaussianTasks,
    "random_networks": RandomNetworkTasks,
    "random_bags": RandomBagTasks,
    "random_tables": RandomTableTasks,
    "banks": BankChoice,
}
"""Kinds of task sources, by the name of their table in a recipe."""

SourceConfig = GaussianTasks | RandomNetworkTasks | RandomBagTasks | RandomTableTasks | BankChoice


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The model, the tasks it is trained on, and the training configuration."""

    model: ModelConfig
    episodes: EpisodeRanges
    sources: tuple[SourceConfig, ...]
    """Sources of tasks; each batch uses one of them."""
    source_weights: tuple[float, ...]
    """Sampling weight of each source."""
    training: TrainingConfig
    validation: ValidationConfig

    def __post_init__(self) -> None:
        require(bool(self.sources), "sources", got="none", allowed=", ".join(SOURCE_KINDS))
        episodes, validation = self.episodes, self.validation
        self._check_sizes("episodes", episodes.ways[1], episodes.shots[1])
        self._check_sizes("validation", validation.ways, max(validation.shots))
        for source in self.sources:
            if isinstance(source, RandomTableTasks) and source.shots is not None:
                self._check_sizes("sources.random_tables", 1, min(source.max_rows, source.shots[1]))
        if self.training.compile and not self.episodes.one_shape:
            raise InvalidConfig(
                "a compiled network needs episodes of one shape",
                got=f"ways {self.episodes.ways}, shots {self.episodes.shots}",
                allowed="compile = false, or ranges of one number each",
                remedy="Set compile = false, or one number for ways and for shots.",
            )
        multiple = self.episodes.multiple
        require(
            self.validation.episodes % multiple == 0,
            "validation.episodes",
            got=self.validation.episodes,
            allowed=f"a multiple of episodes.multiple, {multiple}",
        )

    def _check_sizes(self, name: str, ways: int, shots: int) -> None:
        """Raise if the model cannot read episodes of this size."""
        slots = self.model.max_ways
        if slots is not None and ways > slots:
            raise InvalidConfig(
                f"{name}.ways asks for more classes than the dictionary has slots",
                got=ways,
                allowed=f"at most {slots}",
            )
        limit = self.model.max_support
        if limit is not None and ways * shots > limit:
            raise InvalidConfig(
                f"episodes of [{name}] have more examples than the model can read",
                got=f"up to {ways * shots}",
                allowed=f"at most {limit}",
            )


def read_recipe(path: Path | str) -> Recipe:
    """Read a recipe file; unknown keys are errors."""
    path = Path(path)
    return recipe_from_table(read_toml(path, "recipe"), str(path))


def recipe_from_table(table: Mapping[str, Any], where: str) -> Recipe:
    """Build a recipe from the tables of a file; `where` names it in messages."""
    required, optional = {"model", "episodes", "sources", "training"}, {"validation"}
    if not required <= set(table) <= required | optional:
        raise InvalidConfig(
            f"{where} does not have the parts of a recipe",
            got=", ".join(f"[{name}]" for name in table) or "none",
            allowed="[model], [episodes], [sources.KIND], [training] and perhaps [validation]",
        )
    tables = {**table, **{f"sources.{kind}": part for kind, part in _parts(table["sources"])}}
    for name, part in tables.items():
        if not isinstance(part, Mapping):
            raise InvalidConfig(
                f"{name} is not a table", got=repr(part), allowed=f"a table, [{name}]"
            )
    pairs = [_source(kind, fields) for kind, fields in table["sources"].items()]
    return Recipe(
        model=model_config(table["model"], "model"),
        episodes=from_table(EpisodeRanges, table["episodes"], "episodes"),
        sources=tuple(source for _, source in pairs),
        source_weights=tuple(weight for weight, _ in pairs),
        training=from_table(TrainingConfig, table["training"], "training"),
        validation=from_table(ValidationConfig, table.get("validation", {}), "validation"),
    )


def recipe_from_record(learner: str, record: Mapping[str, Any]) -> Recipe:
    """Rebuild a recipe from the plain values in a run's record."""
    return Recipe(
        model=from_table(model_kind(learner).config, record["model"], "model"),
        episodes=from_table(EpisodeRanges, record["episodes"], "episodes"),
        sources=tuple(_recorded_source(each) for each in record["sources"]),
        source_weights=tuple(record["source_weights"]),
        training=from_table(TrainingConfig, record["training"], "training"),
        validation=from_table(ValidationConfig, record["validation"], "validation"),
    )


def _recorded_source(record: Mapping[str, Any]) -> SourceConfig:
    """Rebuild a source; the record does not name its kind, but each kind has unique keys."""
    kind = next(
        each for each in SOURCE_KINDS.values() if set(record) <= {key.name for key in fields(each)}
    )
    source: SourceConfig = from_table(kind, record, "sources")
    return source


def _parts(sources: object) -> list[tuple[str, Any]]:
    return list(sources.items()) if isinstance(sources, Mapping) else []


def _source(kind: str, table: Mapping[str, Any]) -> tuple[float, SourceConfig]:
    if kind not in SOURCE_KINDS:
        raise InvalidConfig(
            "unknown source of tasks", got=f"[sources.{kind}]", allowed=", ".join(SOURCE_KINDS)
        )
    fields = dict(table)
    weight = fields.pop("weight", 1.0)
    where = f"sources.{kind}"
    require(
        isinstance(weight, int | float) and weight > 0,
        f"{where}.weight",
        got=weight,
        allowed="a number above 0",
    )
    source: SourceConfig = from_table(SOURCE_KINDS[kind], fields, where)
    return float(weight), source
