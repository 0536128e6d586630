"""Training and validation data: build the sources of a recipe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unitail.banks.bank import FeatureBank, bank_matches, named_banks
from unitail.banks.splits import check_disjoint, drop_shared_rows, split_classes
from unitail.banks.table import FeatureTable
from unitail.errors import InvalidConfig, UserError
from unitail.tasks.augmentation import Disguised
from unitail.tasks.bank_episodes import BankEpisodes
from unitail.tasks.batches import EpisodeSource, MixedSource
from unitail.training.recipe import BankChoice, Recipe


@dataclass(frozen=True)
class Sources:
    """The training and validation sources of a run."""

    training: EpisodeSource
    validation: EpisodeSource
    """Held-out classes if the recipe uses banks, otherwise fresh synthetic tasks."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the banks in use, by name: hashes of their features and labels."""


def build_sources(recipe: Recipe, banks: Path | None) -> Sources:
    """Build the sources that the recipe names; `banks` is the folder of feature banks."""
    training: list[EpisodeSource] = []
    validation: EpisodeSource | None = None
    data: dict[str, str] = {}
    for source in recipe.sources:
        if isinstance(source, BankChoice):  # a recipe has at most one [sources.banks]
            chosen = _choose_banks(source, banks)
            episodes, validation = _split_banks(source, list(chosen.values()), recipe.training.seed)
            training.append(Disguised(episodes, source.disguised) if source.disguised else episodes)
            data = {name: bank.fingerprint for name, bank in chosen.items()}
        else:
            training.append(source)
    mixed = MixedSource(tuple(training), recipe.source_weights)
    return Sources(mixed, validation or mixed, data)


def _split_banks(
    choice: BankChoice, banks: Sequence[FeatureBank], seed: int
) -> tuple[BankEpisodes, BankEpisodes]:
    """Split the banks by class; rows found on both sides (duplicates) go to validation only."""
    names = {bank.name for bank in banks}
    unknown = sorted(set(choice.held_out_from) - names)
    if unknown:
        raise InvalidConfig(
            "sources.banks.held_out_from names no bank that is trained on",
            got=", ".join(unknown),
            allowed="data sets among " + ", ".join(sorted(names)),
        )
    training: list[FeatureTable] = []
    validation: list[FeatureTable] = []
    for bank in banks:
        if bank.name in choice.held_out_from:
            kept, held_out = split_classes(bank, choice.held_out, seed)
            training.append(kept)
            validation.append(held_out)
        else:
            training.append(bank)
    training = drop_shared_rows(training, validation)
    check_disjoint(training, validation)
    return BankEpisodes(training, weights=choice.data_set_weights), BankEpisodes(validation)


def _choose_banks(choice: BankChoice, folder: Path | None) -> dict[str, FeatureBank]:
    """Open the banks that match the patterns; return them by ENCODER/DATASET."""
    if folder is None:
        raise UserError(
            "the recipe trains on feature banks, but none are given",
            got="no folder",
            allowed="a folder of banks",
            remedy="Give it with --banks; `unitail bank import` makes one.",
        )
    paths = named_banks(folder)
    for pattern in choice.banks:
        if not any(bank_matches(name, pattern) for name in paths):
            raise InvalidConfig(
                f"no bank in {folder} matches",
                got=pattern,
                allowed=", ".join(paths) or "nothing: the folder has no banks",
            )
    return {name: FeatureBank.open(path) for name, path in paths.items() if choice.matches(name)}
