"""From a recipe's sources to episodes: what is trained on, and what validates."""

from fnmatch import fnmatch
from pathlib import Path

from unitail.errors import InvalidConfig, UserError
from unitail.tasks.batching import EpisodeSource, MixedSource
from unitail.tasks.feature_bank import FeatureBank, find_banks
from unitail.tasks.sampling import BankEpisodes
from unitail.tasks.splits import FeatureTable, check_disjoint, drop_shared_rows, split_classes
from unitail.training.recipe import BankChoice, Recipe


def build_sources(recipe: Recipe, banks: Path | None) -> tuple[EpisodeSource, EpisodeSource]:
    """Return the episodes to train on and those to validate on.

    Validation is on held-out classes of the banks where the recipe has banks, else on synthetic
    tasks drawn from another random stream.
    """
    training: list[EpisodeSource] = []
    held_out: list[EpisodeSource] = []
    for source in recipe.sources:
        if isinstance(source, BankChoice):
            seen, unseen = _open_banks(source, banks, recipe)
            training.append(seen)
            held_out.append(unseen)
        else:
            training.append(source)
    mixed = MixedSource(tuple(training), recipe.source_weights)
    return mixed, held_out[0] if held_out else mixed


def _open_banks(
    choice: BankChoice, folder: Path | None, recipe: Recipe
) -> tuple[BankEpisodes, BankEpisodes]:
    """Split the banks by class; a row that is in both, as in sets with duplicates, validates."""
    training: list[FeatureTable] = []
    validation: list[FeatureTable] = []
    for bank in _chosen_banks(choice, folder):
        if bank.name in choice.held_out_from:
            seen, unseen = split_classes(bank, choice.held_out, recipe.training.seed)
            training.append(seen)
            validation.append(unseen)
        else:
            training.append(bank)
    if not validation:
        raise InvalidConfig(
            "sources.banks.held_out_from names no bank that is trained on",
            got=", ".join(choice.held_out_from),
            allowed="data sets among " + ", ".join(sorted({bank.name for bank in training})),
        )
    training = drop_shared_rows(training, validation)
    check_disjoint(training, validation)
    return BankEpisodes(training, weights=choice.data_set_weights), BankEpisodes(validation)


def _chosen_banks(choice: BankChoice, folder: Path | None) -> list[FeatureBank]:
    if folder is None:
        raise UserError(
            "the recipe trains on feature banks, but none are given",
            got="no folder",
            allowed="a folder of banks",
            remedy="Give it with --banks; `unitail bank import` makes one.",
        )
    found = {
        f"{bank.encoder}/{bank.name}": bank for bank in map(FeatureBank.open, find_banks(folder))
    }
    for pattern in choice.banks:
        if not any(fnmatch(name, pattern) for name in found):
            raise InvalidConfig(
                f"no bank in {folder} matches",
                got=pattern,
                allowed=", ".join(sorted(found)) or "nothing: the folder has no banks",
            )
    return [
        bank
        for name, bank in sorted(found.items())
        if any(fnmatch(name, pattern) for pattern in choice.banks)
    ]
