from collections.abc import Iterator

import pytest
import torch

from unitail.framework.episode import Episode
from unitail.randomness import stream
from unitail.tasks.disguise import WIDTHS, Disguised, _keep_shots
from unitail.tasks.shapes import BatchPlan, EpisodeRanges
from unitail.tasks.synthetic.gaussian import GaussianTasks

WIDTH = 64
RANGES = EpisodeRanges(ways=(2, 8), shots=(1, 3), queries=2, tokens=200, multiple=2)
SOURCE = GaussianTasks(feature_dims=(WIDTH,))


def batches(share: float, count: int = 40) -> Iterator[tuple[BatchPlan, Episode]]:
    source = Disguised(SOURCE, share)
    for step in range(count):
        plan = source.plan(RANGES, stream(0, "plan", step))
        yield plan, source.sample(plan, stream(0, "batch", step))


def test_without_a_share_nothing_changes() -> None:
    for step, (plan, episode) in enumerate(batches(0.0, count=5)):
        assert plan == SOURCE.plan(RANGES, stream(0, "plan", step))
        expected = SOURCE.sample(plan, stream(0, "batch", step))
        assert torch.equal(episode.query.features, expected.query.features)


def test_episodes_have_the_planned_shape_and_every_class_its_shots() -> None:
    for plan, episode in batches(1.0):
        support = episode.support
        assert support.features.shape == (plan.episodes, plan.num_support, plan.feature_dim)
        assert episode.query.features.shape == (plan.episodes, plan.num_query, plan.feature_dim)
        assert support.features.isfinite().all()
        counts = torch.nn.functional.one_hot(support.class_indices, plan.ways).sum(1)
        assert (counts == plan.shots).all()
        assert episode.query.class_indices.max() < plan.ways


def test_widths_and_numbers_of_merged_classes_vary() -> None:
    plans = [plan for plan, _ in batches(1.0, count=80)]
    widths = {plan.feature_dim for plan in plans}
    merged = {plan.inner.ways // plan.ways for plan in plans if plan.inner is not None}
    assert WIDTH in widths
    assert len(widths) > 3
    assert min(widths) >= WIDTHS[0]
    assert {1, 2} < merged


def test_a_merged_class_shows_two_examples_at_least() -> None:
    plans = [plan for plan, _ in batches(1.0, count=80) if plan.inner is not None]
    shots = {plan.shots for plan in plans if plan.inner and plan.inner.ways > plan.ways}
    assert min(shots) == 2


def test_a_share_of_the_batches_is_disguised() -> None:
    disguised = [plan.inner is not None for plan, _ in batches(0.5, count=200)]
    assert 60 < sum(disguised) < 140


@pytest.mark.parametrize("step", range(6))
def test_parts_make_up_the_batch(step: int) -> None:
    source = Disguised(SOURCE, 1.0)
    plan = source.plan(RANGES, stream(1, step))
    whole = source.sample(plan, stream(2, step))
    half = plan.episodes // 2
    for part in (slice(0, half), slice(half, None)):
        found = source.sample(plan, stream(2, step), part)
        torch.testing.assert_close(found.support.features, whole.support.features[part])
        torch.testing.assert_close(found.query.features, whole.query.features[part])
        assert torch.equal(found.support.class_indices, whole.support.class_indices[part])


def test_a_merged_class_has_the_rows_of_its_parts() -> None:
    for step, (plan, episode) in enumerate(batches(1.0)):
        assert plan.inner is not None
        merged = plan.inner.ways // plan.ways
        inner = SOURCE.sample(plan.inner, stream(0, "batch", step))
        assert torch.equal(episode.query.class_indices, inner.query.class_indices // merged)
        kept = _keep_shots(plan, stream(0))
        rows_of_a_class = plan.inner.num_support // plan.ways
        classes = torch.arange(plan.ways).repeat_interleave(plan.shots)
        assert (kept // rows_of_a_class == classes).all()
        assert all(len(set(row)) == len(row) for row in kept.tolist())
