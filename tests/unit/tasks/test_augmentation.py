from collections.abc import Iterator

import pytest
import torch

from unitail.framework.episode import Episode
from unitail.randomness import stream
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
