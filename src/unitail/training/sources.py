"""From a recipe's sources to episodes: what is trained on, and what validates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from unitail.banks.bank import FeatureBank, named_banks
from unitail.banks.splits import FeatureTable, check_disjoint, drop_shared_rows, split_classes
from unitail.errors import InvalidConfig, UserError
from unitail.tasks.disguise import Disguised
from unitail.tasks.sampling import BankEpisodes
from unitail.tasks.shapes import EpisodeSource, MixedSource
from unitail.training.recipe import BankChoice, Recipe


@dataclass(frozen=True)
class Sources:
    """Where a run's episodes come from."""

    training: EpisodeSource
    validation: EpisodeSource
    """Held-out classes of the banks where the recipe has banks, else fresh synthetic tasks."""
    data: Mapping[str, str] = field(default_factory=dict)
    """The banks in use and the hashes of their features and labels."""


def build_sources(recipe: Recipe, banks: Path | None) -> Sources:
    """Open what the recipe names; `banks` is the folder of feature banks."""
    training: list[EpisodeSource] = []
    held_out: list[EpisodeSource] = []
    data: dict[str, str] = {}
    for source in recipe.sources:
        if isinstance(source, BankChoice):
            chosen = _choose_banks(source, banks)
            seen, unseen = _split_banks(source, list(chosen.values()), recipe.training.seed)
            training.append(Disguised(seen, source.disguised) if source.disguised else seen)
            held_out.append(unseen)
            data |= {name: bank.fingerprint for name, bank in chosen.items()}
        else:
            training.append(source)
    mixed = MixedSource(tuple(training), recipe.source_weights)
    return Sources(mixed, held_out[0] if held_out else mixed, data)


def _split_banks(
    choice: BankChoice, banks: list[FeatureBank], seed: int
) -> tuple[BankEpisodes, BankEpisodes]:
    """Split the banks by class; a row that is in both, as in sets with duplicates, validates."""
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
            seen, unseen = split_classes(bank, choice.held_out, seed)
            training.append(seen)
            validation.append(unseen)
        else:
            training.append(bank)
    training = drop_shared_rows(training, validation)
    check_disjoint(training, validation)
    return BankEpisodes(training, weights=choice.data_set_weights), BankEpisodes(validation)


def _choose_banks(choice: BankChoice, folder: Path | None) -> dict[str, FeatureBank]:
    """Open the banks that match, by ENCODER/DATASET."""
    if folder is None:
        raise UserError(
            "the recipe trains on feature banks, but none are given",
            got="no folder",
            allowed="a folder of banks",
            remedy="Give it with --banks; `unitail bank import` makes one.",
        )
    found = named_banks(folder)
    for pattern in choice.banks:
        if not any(fnmatch(name, pattern) for name in found):
            raise InvalidConfig(
                f"no bank in {folder} matches",
                got=pattern,
                allowed=", ".join(sorted(found)) or "nothing: the folder has no banks",
            )
    return {
        name: FeatureBank.open(path)
        for name, path in found.items()
        if any(fnmatch(name, pattern) for pattern in choice.banks)
    }
