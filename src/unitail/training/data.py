"""Training and validation data: build the sources of a recipe, and draw batches from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from unitail.banks.bank import FeatureBank, bank_matches, named_banks
from unitail.banks.splits import check_disjoint, drop_shared_rows, split_classes
from unitail.banks.table import FeatureTable
from unitail.errors import InvalidConfig, UserError
from unitail.framework.episode import Episode
from unitail.nn.episode_model import AnyModel, EpisodeDraw, Visibility
from unitail.nn.slot_model import SlotModel
from unitail.randomness import draw_between, draw_uniform, pick
from unitail.tasks.augmentation import Disguised
from unitail.tasks.bank_episodes import BankEpisodes
from unitail.tasks.batches import Batch, EpisodeSource, MixedSource
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


def draw_batch(
    batch: Batch,
    model: AnyModel,
    generator: torch.Generator,
    shard: slice,
    active_slots: int | None = None,
) -> tuple[Episode, EpisodeDraw]:
    """Draw the episodes of a shard, and the model's random draw for them.

    The draw is made for the whole batch, so it does not depend on the number of processes.
    """
    episode, shape = batch.sample(generator, shard), batch.shape
    draw_for = model.draw_for
    if isinstance(model, SlotModel):  # a growing dictionary has fewer slots at first
        draw_for = partial(model.draw_for, active_slots=active_slots)
    draw: EpisodeDraw = draw_for(
        episodes=shape.episodes,
        ways=shape.ways,
        feature_dim=shape.feature_dim,
        generator=generator,
    )
    return episode, draw.select(shard)


def draw_visibility(
    visibilities: Sequence[Visibility], generator: torch.Generator
) -> Visibility | None:
    """Draw the visibility of a batch; None, the model's default, if the list is empty."""
    return pick(visibilities, generator) if visibilities else None


def draw_pool(
    episode: Episode, share: float, generator: torch.Generator
) -> tuple[Episode, Tensor | None]:
    """In this share of batches, split off some queries as an unlabelled pool (B, u, d_T).

    Return the remaining episode and the pool, or the whole episode and None. Queries come in random
    order, so the first ones are taken; at least one query remains.
    """
    if draw_uniform(generator) >= share:
        return episode, None
    query = episode.query
    assert query.class_indices is not None, "sources sample labelled queries"
    count = draw_between((1, max(1, query.num_query - 1)), generator)
    remaining = replace(
        query, features=query.features[:, count:], class_indices=query.class_indices[:, count:]
    )
    return replace(episode, query=remaining), query.features[:, :count]


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
