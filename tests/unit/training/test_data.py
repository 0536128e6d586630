from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.banks import manifest_of
from helpers.short_runs import TABLE
from unitail.banks.writer import BankWriter
from unitail.errors import InvalidConfig, UserError
from unitail.randomness import stream
from unitail.tasks.batches import EpisodeRanges, EpisodeSource
from unitail.training.data import build_sources
from unitail.training.recipe import Recipe, recipe_from_table

CLASSES, ROWS = 6, 5


def write_bank(folder: Path, name: str, *, seed: int = 0) -> None:
    """Write a bank whose first coordinate is the class, and whose second is the row."""
    indices = np.repeat(np.arange(CLASSES), ROWS)
    features = np.random.default_rng(seed).normal(size=(len(indices), 4)).astype(np.float32)
    features[:, 0], features[:, 1] = indices, np.arange(len(indices))
    manifest = manifest_of(len(features), 4, name=name)
    names = [f"class {number}" for number in range(CLASSES)]
    with BankWriter(folder / "toy" / name, manifest, names) as writer:
        writer.append(features, indices)


def recipe(**fields: Any) -> Recipe:  # noqa: ANN401
    banks = {"banks": ["toy/*"], "held_out_from": ["a"], "held_out": 0.5, **fields}
    return recipe_from_table({**TABLE, "sources": {"banks": banks}}, "test")


def values_drawn(source: EpisodeSource, column: int) -> set[float]:
    """Return what many episodes hold in a column of their features."""
    ranges = EpisodeRanges.fixed(episodes=200, ways=2, shots=1, queries=1)
    episode = source.choose_batch(ranges, stream(0)).sample(stream(1))
    both = (episode.support.features, episode.query.features)
    return {float(value) for part in both for value in part[..., column].flatten()}


def test_held_out_classes_are_validated_on_and_never_trained_on(tmp_path: Path) -> None:
    write_bank(tmp_path, "a")
    sources = build_sources(recipe(), tmp_path)
    seen, unseen = values_drawn(sources.training, 0), values_drawn(sources.validation, 0)
    assert len(seen) == len(unseen) == CLASSES / 2
    assert not seen & unseen


def test_other_banks_are_trained_on_whole(tmp_path: Path) -> None:
    write_bank(tmp_path, "a")
    write_bank(tmp_path, "b", seed=1)
    sources = build_sources(recipe(data_set_weights={"a": 0}), tmp_path)
    assert len(values_drawn(sources.training, 0)) == CLASSES
    assert len(values_drawn(sources.validation, 0)) == CLASSES / 2


def test_the_data_are_known_by_their_hashes(tmp_path: Path) -> None:
    write_bank(tmp_path / "one", "a")
    write_bank(tmp_path / "other", "a", seed=1)
    one, other = (build_sources(recipe(), tmp_path / name).data for name in ("one", "other"))
    assert set(one) == set(other) == {"toy/a"}
    assert one != other


def test_synthetic_recipes_need_no_banks() -> None:
    sources = build_sources(recipe_from_table(TABLE, "test"), None)
    assert sources.training is sources.validation
    assert not sources.data


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"banks": ["toy/z"]}, "no bank in .* matches: got toy/z; allowed: toy/a"),
        ({"held_out_from": ["a", "z"]}, "names no bank that is trained on: got z; allowed: .* a"),
    ],
)
def test_names_that_match_nothing_are_refused(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    write_bank(tmp_path, "a")
    with pytest.raises(InvalidConfig, match=message):
        build_sources(recipe(**fields), tmp_path)


def test_missing_and_double_banks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none are given.*--banks"):
        build_sources(recipe(), None)
    write_bank(tmp_path / "one", "a")
    write_bank(tmp_path / "two", "a")
    with pytest.raises(UserError, match=r"two banks in .* are called toy/a"):
        build_sources(recipe(), tmp_path)


def test_a_broken_bank_that_is_not_asked_for_does_no_harm(tmp_path: Path) -> None:
    write_bank(tmp_path, "a")
    write_bank(tmp_path, "broken")
    (tmp_path / "toy" / "broken" / "labels.npy").write_bytes(b"")
    assert build_sources(recipe(banks=["toy/a"]), tmp_path).data
