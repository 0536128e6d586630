from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from unitail.framework.episode import Episode
from unitail.randomness import stream
from unitail.tasks import augmentation
from unitail.tasks.augmentation import WIDTHS, Disguised, DisguisedBatch
from unitail.tasks.batches import Batch, EpisodeRanges
from unitail.tasks.synthetic.gaussian import GaussianTasks

WIDTH = 64
RANGES = EpisodeRanges(ways=(2, 8), shots=(1, 3), queries=2, tokens=200, multiple=2)
SOURCE = GaussianTasks(feature_dims=(WIDTH,))


def batches(share: float, count: int = 40) -> Iterator[tuple[Batch, Episode]]:
    for step in range(count):
        batch = Disguised(SOURCE, share).choose_batch(RANGES, stream(0, "shape", step))
        yield batch, batch.sample(stream(0, "batch", step))


def disguised(count: int = 80) -> list[DisguisedBatch]:
    chosen = [batch for batch, _ in batches(1.0, count)]
    assert all(isinstance(batch, DisguisedBatch) for batch in chosen)
    return chosen


def test_without_a_share_nothing_changes() -> None:
    for step, (batch, episode) in enumerate(batches(0.0, count=5)):
        own = SOURCE.choose_batch(RANGES, stream(0, "shape", step))
        assert batch.shape == own.shape
        expected = own.sample(stream(0, "batch", step))
        assert torch.equal(episode.query.features, expected.query.features)


def test_episodes_have_the_stated_shape_and_every_class_its_shots() -> None:
    for batch, episode in batches(1.0):
        support, shape = episode.support, batch.shape
        assert support.features.shape == (shape.episodes, shape.num_support, shape.feature_dim)
        assert episode.query.features.shape == (shape.episodes, shape.num_query, shape.feature_dim)
        assert support.features.isfinite().all()
        counts = torch.nn.functional.one_hot(support.class_indices, shape.ways).sum(1)
        assert (counts == shape.shots).all()
        assert episode.query.class_indices.max() < shape.ways


def test_widths_and_numbers_of_merged_classes_vary() -> None:
    widths = {batch.shape.feature_dim for batch in disguised()}
    merged = {batch.merged for batch in disguised()}
    assert WIDTH in widths
    assert len(widths) > 3
    assert min(widths) >= WIDTHS[0]
    assert {1, 2} < merged


def test_a_merged_class_shows_two_examples_at_least() -> None:
    shots = {batch.shape.shots for batch in disguised() if batch.merged > 1}
    assert min(shots) == 2


def test_a_share_of_the_batches_is_disguised() -> None:
    changed = [isinstance(batch, DisguisedBatch) for batch, _ in batches(0.5, count=200)]
    assert 60 < sum(changed) < 140


@pytest.mark.parametrize("step", range(6))
def test_shards_make_up_the_batch(step: int) -> None:
    batch = Disguised(SOURCE, 1.0).choose_batch(RANGES, stream(1, step))
    whole = batch.sample(stream(2, step))
    for rank in range(2):
        shard = batch.shape.shard(rank, 2)
        episode = batch.sample(stream(2, step), shard)
        torch.testing.assert_close(episode.support.features, whole.support.features[shard])
        torch.testing.assert_close(episode.query.features, whole.query.features[shard])
        assert torch.equal(episode.support.class_indices, whole.support.class_indices[shard])


def test_a_merged_class_keeps_different_rows_of_its_own() -> None:
    for step, batch in enumerate(disguised(40)):
        episode = batch.sample(stream(0, "batch", step))
        inner = batch.inner.sample(stream(0, "batch", step))
        assert torch.equal(episode.query.class_indices, inner.query.class_indices // batch.merged)
        kept = batch._keep(stream(0))
        rows_of_a_class = batch.inner.shape.num_support // batch.shape.ways
        classes = torch.arange(batch.shape.ways).repeat_interleave(batch.shape.shots)
        assert (kept // rows_of_a_class == classes).all()
        assert all(len(set(row)) == len(row) for row in kept.tolist())


class _Unchanged(DisguisedBatch):
    def _change(self, features: torch.Tensor, *_: object) -> torch.Tensor:
        return features


def test_rows_keep_their_classes() -> None:
    for step, batch in enumerate(disguised(40)):
        if batch.shape.feature_dim < WIDTH:
            continue
        episode = _Unchanged(batch.shape, batch.inner, batch.merged).sample(stream(0, step))
        inner = batch.inner.sample(stream(0, step))
        classes = {
            tuple(row): index
            for rows, indices in zip(
                inner.support.features.tolist(), inner.support.class_indices.tolist(), strict=True
            )
            for row, index in zip(rows, indices, strict=True)
        }
        for rows, indices in zip(
            episode.support.features.tolist(), episode.support.class_indices.tolist(), strict=True
        ):
            assert len({tuple(row) for row in rows}) == len(rows)
            assert indices == [classes[tuple(row)] // batch.merged for row in rows]


PLAIN = {"OFFSET_FACTORS": (1.0, 1.0), "MAX_WEIGHT": 0.0, "POWERS": (1.0, 1.0), "MAX_NOISE": 0.0}
"""Ranges in which no change has an effect, except that rows get unit length."""


def changed(features: Tensor, monkeypatch: pytest.MonkeyPatch, **ranges: object) -> Tensor:
    """Apply all changes within some ranges, the others without effect."""
    for name, value in {"CHANGE_SHARE": 1.0, **PLAIN, **ranges}.items():
        monkeypatch.setattr(augmentation, name, value)
    batch = disguised(1)[0]
    shape = replace(batch.shape, episodes=len(features), feature_dim=features.shape[2])
    return replace(batch, shape=shape)._change(features, stream(4), slice(None))


def unit(features: Tensor) -> Tensor:
    return torch.nn.functional.normalize(features, dim=-1)


@pytest.fixture
def features() -> Tensor:
    return torch.randn(3, 40, 8, generator=stream(3)) + torch.arange(8.0)


def test_without_a_change_features_stay_as_they_are(
    features: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert torch.equal(changed(features, monkeypatch, CHANGE_SHARE=0.0), features)


def test_rows_get_unit_length(features: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.testing.assert_close(changed(features, monkeypatch), unit(features))


@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_the_mean_of_an_episode_is_rescaled(
    features: Tensor, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    mean = features.mean(dim=1, keepdim=True)
    expected = unit(features - mean + factor * mean)
    rescaled = changed(features, monkeypatch, OFFSET_FACTORS=(factor, factor))
    torch.testing.assert_close(rescaled, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("power", [0.5, 1.5])
def test_coordinates_get_a_power_and_keep_their_sign(
    features: Tensor, power: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = unit(features.sign() * features.abs() ** power)
    torch.testing.assert_close(changed(features, monkeypatch, POWERS=(power, power)), expected)


def test_powers_keep_the_size_of_an_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    features = 100 * torch.randn(80, 20, 8, generator=stream(3))
    powered = changed(features, monkeypatch, POWERS=(0.5, 0.5), CHANGE_SHARE=0.4)
    size = powered.pow(2).mean(dim=(1, 2)).sqrt()
    size = size[powered.norm(dim=2).sub(1).abs().amax(dim=1) > 1e-3]  # without unit length
    assert len(size) > 30
    assert 70 < size.min() < size.max() < 130


def test_coordinates_of_an_episode_get_weights_of_their_own(
    features: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratios = (changed(features, monkeypatch, MAX_WEIGHT=1.0) / features).log()
    weights = ratios - ratios.mean(dim=2, keepdim=True)  # without the lengths of rows
    torch.testing.assert_close(weights, weights[:, :1].expand_as(weights), atol=1e-4, rtol=0)
    assert weights[:, 0].std(dim=1).min() > 0.05
    assert not torch.allclose(weights[0], weights[1], atol=0.05)


def test_noise_is_in_units_of_the_deviation_of_features(
    features: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    noisy = changed(features, monkeypatch, MAX_NOISE=5.0)
    torch.testing.assert_close(changed(1e3 * features, monkeypatch, MAX_NOISE=5.0), noisy)
    assert (noisy * unit(features)).sum(dim=2).mean() < 0.99
    far = features + 1e3  # an offset does not count
    still = changed(far, monkeypatch, MAX_NOISE=5.0)
    assert (still * unit(far)).sum(dim=2).min() > 0.9999


@pytest.mark.parametrize("width", [32, 256])
def test_a_projection_keeps_lengths(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augmentation, "CHANGE_SHARE", 0.0)
    batch = disguised(1)[0]
    rows = torch.randn(2, 50, 512, generator=stream(3))
    narrow = replace(batch, shape=replace(batch.shape, episodes=2, feature_dim=width))
    projected = narrow._change(rows, stream(4), slice(None))
    assert projected.shape == (2, 50, width)
    ratio = projected.norm(dim=2) / rows.norm(dim=2)
    assert ratio.mean().item() == pytest.approx(1, abs=0.05)
