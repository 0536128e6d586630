"""Suite files (TOML): data sets in groups, episodes and learners."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unitail.banks.cross import ARROW
from unitail.configuration import from_table, parse_toml
from unitail.encoder_names import encoder_name
from unitail.errors import InvalidConfig, UserError, require
from unitail.evaluation.protocol import ALL_WAYS, EvaluationProtocol
from unitail.own_code import is_own
from unitail.tasks.batches import QueryShares

FOLDER = Path(__file__).parents[1] / "suites"
"""Folder of the suites shipped with the package."""
ALL = "all"
ENCODER_FIELD = "{encoder}"
"""Placeholder in a group's name for the encoder, so that every encoder gets its own group."""
REMEDY = "Correct the suite's file; docs/reproduce.md explains the keys."


@dataclass(frozen=True, kw_only=True)
class SuiteGroup:
    """A group of data sets whose accuracies are averaged."""

    name: str
    """Name of the group in tables; "{encoder}" makes one group per encoder."""
    sets: tuple[str, ...]
    """Patterns ENCODER/DATASET, or DATASET with the encoder below; "A->B" draws examples from A and
    queries from B."""
    encoder: str = ""
    """Encoder of sets that name none; the default is the suite's encoder."""
    held_out: float | None = None
    """Test only this share of the classes, held out of training; None tests all classes."""
    overlap: tuple[str, ...] = ()
    """Sets with classes that may have the same meaning as training classes; tables mark them *."""

    def patterns(self, default_encoder: str) -> list[str]:
        """Return all sets as patterns ENCODER/DATASET."""
        return [self._full(each, self.encoder or default_encoder) for each in self.sets]

    def _full(self, name: str, encoder: str) -> str:
        if "/" not in name and not encoder:
            raise InvalidConfig(
                f"the group {self.name!r} names a set without an encoder",
                got=name,
                allowed="ENCODER/DATASET, or DATASET where group or suite have an `encoder`",
                remedy=REMEDY,
            )
        return name if "/" in name else f"{encoder}/{name}"


@dataclass(frozen=True, kw_only=True)
class SuiteFile:
    """The contents of a suite file."""

    name: str
    """Name of the file, without its suffix."""
    title: str
    """Title of the report."""
    about: str = ""
    """Introductory sentences for readers of the report."""
    encoder: str = ""
    """Encoder of sets that name none."""
    ways: tuple[int, ...] = (5,)
    """Values of K; in the file, "all" stands for all classes of each data set."""
    shots: tuple[int, ...] = (1, 5)
    """Values of N."""
    queries: int = 15
    """Number of queries per class."""
    query_shares: QueryShares = QueryShares.BALANCED
    """How the queries are distributed over the classes."""
    concentration: float = 1.0
    """Concentration of the Dirichlet distribution of random shares."""
    episodes: int = 600
    """Number of episodes per data set."""
    seed: int = 0
    """Seed of the episodes."""
    learners: tuple[str, ...] = ()
    """Learners to measure; if empty, all available ones."""
    groups: tuple[SuiteGroup, ...] = ()

    def __post_init__(self) -> None:
        names = [group.name for group in self.groups]
        twice = [name for name in names if names.count(name) > 1]
        require(bool(names), "groups", got="none", allowed="one or more [[groups]]")
        require(not twice, "name of a group", got=f"{twice[:1]} twice", allowed="different names")
        own = [name for name in self.learners if is_own(name)]
        if own:
            raise InvalidConfig(
                "a suite names a Python file, which would be run",
                got=", ".join(own),
                allowed="names of learners and of runs",
                remedy="Give it after --learner instead.",
            )
        _ = [group.patterns(self.encoder) for group in self.groups], self.protocols()

    def protocols(self) -> list[EvaluationProtocol]:
        """List the protocols, one for each combination of ways and shots."""
        return [
            EvaluationProtocol(
                ways=ways,
                shots=shots,
                queries=self.queries,
                query_shares=self.query_shares,
                concentration=self.concentration,
                episodes=self.episodes,
                seed=self.seed,
            )
            for ways in dict.fromkeys(self.ways)
            for shots in dict.fromkeys(self.shots)
        ]

    def patterns(self) -> list[str]:
        """List the sets of all groups as patterns ENCODER/DATASET."""
        return [pattern for group in self.groups for pattern in group.patterns(self.encoder)]

    def with_encoders(self, others: Mapping[str, str]) -> "SuiteFile":
        """Replace encoders, for instance {"openclip-vit-h-14": "resnet-18"}."""
        replacements = {encoder_name(old): new for old, new in others.items()}

        def swap(encoder: str) -> str:
            return replacements.get(encoder_name(encoder), encoder)

        def swap_set(name: str) -> str:
            encoder, slash, data_set = name.rpartition("/")
            return f"{swap(encoder)}{slash}{data_set}"

        groups = [
            replace(group, encoder=swap(group.encoder), sets=tuple(map(swap_set, group.sets)))
            for group in self.groups
        ]
        return replace(self, encoder=swap(self.encoder), groups=tuple(groups))


def suite_names() -> list[str]:
    """List the names of the suites shipped with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_suite(name: str | Path) -> SuiteFile:
    """Read a shipped suite by its name, or any suite by its file."""
    path = Path(name)
    if path.suffix != ".toml":
        path = FOLDER / f"{name}.toml"
        if str(name) not in suite_names():
            allowed = f"{', '.join(suite_names())}, or a .toml file"
            raise UserError("unknown suite", got=name, allowed=allowed)
    try:
        table = parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read as a suite",
            got=f"{type(error).__name__}: {error}",
            allowed="a TOML file",
            remedy="Correct the file, or name another.",
        ) from error
    if "name" in table:
        raise InvalidConfig(
            f"unknown key in [{path.stem}]",
            got="name",
            allowed="no name: a suite is named after its file",
            remedy=REMEDY,
        )
    if table.get("ways") == ALL:
        table["ways"] = [ALL_WAYS]
    return from_table(SuiteFile, {**table, "name": path.stem}, path.stem)


def is_cross(pattern: str) -> bool:
    """Return whether a set is a pair: examples from one set, queries from the other."""
    return ARROW in pattern


def changed_suite(suite: SuiteFile, changes: Mapping[str, Any]) -> SuiteFile:
    """Return the suite with some keys changed; None keeps the value of the file."""
    overrides = {key: value for key, value in changes.items() if value is not None}
    return from_table(SuiteFile, {**vars(suite), **overrides}, suite.name)


def swaps(texts: Iterable[str]) -> dict[str, str]:
    """Parse texts of the form "OLD=NEW"."""
    pairs = [text.partition("=") for text in texts]
    for old, _, new in pairs:
        if not old or not new:
            raise UserError(
                "cannot understand which encoder replaces which",
                got=f"{old}{'=' if new else ''}{new}",
                allowed="OLD=NEW, such as openclip-vit-h-14-paper=efficientnet-lite0",
            )
    return {old: new for old, _, new in pairs}
