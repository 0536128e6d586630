"""Declared sets of tasks, to which a claim of universal validity refers (paper, section 3.3)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unitail.banks.bank import FeatureBank, named_banks
from unitail.banks.table import FeatureTable
from unitail.configuration import from_table, read_toml
from unitail.errors import InvalidConfig, UserError, require
from unitail.framework.curves import SHOTS
from unitail.framework.task import Task
from unitail.randomness import stream
from unitail.tasks.arrays import ArrayTask
from unitail.tasks.bundled import bundled_tasks
from unitail.tasks.synthetic.gaussian import GaussianTasks

MIN_ROWS = 8
"""Smallest number of rows of an eligible class, so that a curve has a few sizes."""


@dataclass(frozen=True, kw_only=True)
class SyntheticChoice:
    """A Gaussian task, whose Bayes risk is known."""

    width: int
    """d_T."""
    ways: int
    """K."""
    separation: float = 2.0
    """Spread of the class means in units of the noise."""
    group: str = "synthetic"
    """Group of the task in reports."""

    def __post_init__(self) -> None:
        for name, least in (("width", 1), ("ways", 2)):
            got = getattr(self, name)
            require(got >= least, name, got=got, allowed=f"{least} or more")
        require(self.separation > 0, "separation", got=self.separation, allowed="above 0")

    @property
    def name(self) -> str:
        """Name of the task in reports."""
        return f"gaussian, width {self.width}, {self.ways} classes"


@dataclass(frozen=True, kw_only=True)
class DeclaredBank:
    """Some classes of a feature bank."""

    bank: str
    """ENCODER/DATASET."""
    ways: int
    """K; the classes are drawn once, among those with enough rows."""
    group: str = "banks"
    """Group of the task in reports, such as the modality."""

    def __post_init__(self) -> None:
        require(self.ways >= 2, "ways", got=self.ways, allowed="2 or more")

    @property
    def name(self) -> str:
        """Name of the task in reports."""
        return f"{self.bank}, {self.ways} classes"


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The tasks of a study, and the numbers of shots at which curves are measured."""

    shots: tuple[int, ...] = SHOTS
    """Values of N, increasing; a task with few rows uses only those it has rows for."""
    tables: bool = False
    """Whether to include scikit-learn's digits, wine and breast cancer tables."""
    synthetic: tuple[SyntheticChoice, ...] = ()
    banks: tuple[DeclaredBank, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DeclaredTask:
    """A task of a study."""

    task: Task
    group: str = "tasks"
    """Group of the task in reports."""


@dataclass(frozen=True, kw_only=True)
class DeclaredTasks:
    """The available tasks of a declaration."""

    tasks: tuple[DeclaredTask, ...]
    shots: tuple[int, ...] = SHOTS
    missing: tuple[str, ...] = field(default=())
    """Tasks whose banks are not available or have too few classes."""


WIDTHS, WAYS = (2, 16, 128, 1280, 2048), (2, 10, 100)
BUILT_IN = Declaration(
    tables=True,
    synthetic=tuple(SyntheticChoice(width=width, ways=ways) for width in WIDTHS for ways in WAYS),
    banks=tuple(
        DeclaredBank(bank=bank, ways=ways, group=group)
        for bank, ways, group in (
            ("efflite0/cub200", 5, "images"),
            ("efflite0/cub200", 100, "images"),
            ("efflite0/rsscn7", 5, "images"),
            ("resnet50/cub200", 5, "images"),
            ("resnet50/cub200", 100, "images"),
            ("minilm/clinc150", 5, "text"),
            ("minilm/clinc150", 100, "text"),
            ("glove100/banking77", 5, "text"),
            ("yamnet/esc50", 5, "audio"),
            ("yamnet/esc50", 50, "audio"),
            ("whisper_tiny/fsdd", 10, "audio"),
        )
    ),
)
"""Synthetic tasks (widths 2 to 2048, 2 to 100 classes), tables, and banks of three modalities."""


def read_declaration(path: Path) -> Declaration:
    """Read a TOML file: `shots`, `tables`, and any number of [[synthetic]] and [[banks]]."""
    table = read_toml(path, "tasks")
    chosen = {
        name: tuple(
            from_table(kind, each, f"{path}: {name}") for each in _tables(table, name, path)
        )
        for name, kind in (("synthetic", SyntheticChoice), ("banks", DeclaredBank))
    }
    other_keys = {key: value for key, value in table.items() if key not in chosen}
    declared = from_table(Declaration, {**other_keys}, str(path))
    return Declaration(shots=declared.shots, tables=declared.tables, **chosen)  # type: ignore[arg-type]


def declared_tasks(
    declaration: Declaration = BUILT_IN, banks: Path | None = None, *, seed: int = 0
) -> DeclaredTasks:
    """Draw or open the tasks; missing banks are listed, not errors."""
    paths = named_banks(banks) if banks is not None else {}
    tasks = [_synthetic(choice, seed) for choice in declaration.synthetic]
    if declaration.tables:
        tasks += [DeclaredTask(task=task, group="tables") for task in bundled_tasks()]
    missing = []
    for choice in declaration.banks:
        table = FeatureBank.open(paths[choice.bank]) if choice.bank in paths else None
        task = None if table is None else bank_task(table, choice, seed)
        if task is None:
            missing.append(choice.name)
        else:
            tasks.append(DeclaredTask(task=task, group=choice.group))
    if not tasks:
        raise UserError(
            "no task of the declaration is available",
            got=", ".join(missing) or "an empty declaration",
            allowed="synthetic tasks, tables, or banks that exist",
            remedy="Name the folder of banks with --banks, or declare [[synthetic]] tasks.",
        )
    return DeclaredTasks(tasks=tuple(tasks), shots=declaration.shots, missing=tuple(missing))


def bank_task(table: FeatureTable, choice: DeclaredBank, seed: int = 0) -> ArrayTask | None:
    """Make a task of K random classes of a table; None if too few classes have enough rows."""
    enough = np.flatnonzero(table.class_sizes >= MIN_ROWS)
    if len(enough) < choice.ways:
        return None
    generator = np.random.default_rng(stream(seed, "declared", choice.name).initial_seed())
    classes = generator.permutation(enough)[: choice.ways]
    new_indices = np.full(len(table.class_names), -1)
    new_indices[classes] = np.arange(choice.ways)
    class_indices = np.where(table.class_indices >= 0, new_indices[table.class_indices], -1)
    rows = np.flatnonzero(class_indices >= 0)
    features = np.asarray(table.features[rows], np.float32)
    return ArrayTask(features=features, class_indices=class_indices[rows], name=choice.name)


def as_declared(tasks: Iterable[Task | DeclaredTask]) -> tuple[DeclaredTask, ...]:
    """Wrap plain tasks as declared tasks."""
    return tuple(
        each if isinstance(each, DeclaredTask) else DeclaredTask(task=each) for each in tasks
    )


def _synthetic(choice: SyntheticChoice, seed: int) -> DeclaredTask:
    law = GaussianTasks(
        feature_dims=(choice.width,), separation=(choice.separation, choice.separation)
    )
    generator = stream(seed, "declared", choice.name)
    task = law.task(ways=choice.ways, generator=generator, name=choice.name)
    return DeclaredTask(task=task, group=choice.group)


def _tables(table: Mapping[str, Any], name: str, path: Path) -> Sequence[Mapping[str, Any]]:
    """Return the [[name]] tables of a file."""
    tables = table.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(each, Mapping) for each in tables):
        raise InvalidConfig(
            f"{path}: {name} is not a list of tables", got=repr(tables), allowed=f"[[{name}]]"
        )
    return tables
