from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from torch.distributions import Normal

from unitail.configuration import from_table
from unitail.errors import InvalidConfig, UserError
from unitail.framework.episode import Episode, Support
from unitail.framework.task import Task, log_loss
from unitail.randomness import stream
from unitail.tasks.synthetic.gaussian import GaussianTask, GaussianTasks

MEANS = torch.tensor([[0.0, 1.0, 2.0], [3.0, 1.0, 0.0], [1.0, 1.0, 1.0], [-1.0, 0.0, 5.0]])
TASK = GaussianTask(means=MEANS, scale=torch.tensor([1.0, 2.0, 0.5]))


def _pair(distance: float, width: int = 5) -> GaussianTask:
    """Two classes whose means lie `distance` apart in units of the scale."""
    scale = torch.linspace(0.5, 2.0, width)
    direction = torch.randn(width, generator=stream(0, "direction"))
    offset = distance * direction / direction.norm() * scale
    return GaussianTask(means=torch.stack([10 - offset / 2, 10 + offset / 2]), scale=scale)


@pytest.mark.parametrize("distance", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_bayes_risk_of_two_classes_is_known(distance: float) -> None:
    interval = _pair(distance).bayes_risk_interval

    assert interval.mean == pytest.approx(
        stats.norm.cdf(-distance / 2), abs=2 * interval.half_width + 1e-6
    )
    assert interval.half_width < 1e-3


def test_bayes_risk_in_the_log_loss_is_the_conditional_entropy() -> None:
    distance = 1.5
    task = replace(_pair(distance), loss=log_loss)

    def integrand(z: float) -> float:
        """-log p(y | x) where x lies z from its own mean, away from the other one."""
        other, own = stats.norm.pdf(z + distance), stats.norm.pdf(z)
        return float(-own * stats.norm.logpdf(z) + own * torch.tensor(own + other).log())

    expected = integrate.quad(integrand, -8, 8)[0]
    interval = task.bayes_risk_interval
    assert interval.mean == pytest.approx(expected, abs=2 * interval.half_width)


def test_bayes_risk_is_that_of_the_bayes_hypothesis() -> None:
    episode = TASK.sample(episodes=200, shots=1, queries=100, generator=stream(1))
    assert episode.query.class_indices is not None
    losses = TASK.loss(TASK.log_posterior(episode.query.features), episode.query.class_indices)

    error = losses.std() / losses.numel() ** 0.5
    assert float(losses.mean()) == pytest.approx(TASK.bayes_risk, abs=4 * float(error))


def test_bayes_risk_is_always_the_same_number() -> None:
    assert TASK.bayes_risk == replace(TASK).bayes_risk


def test_posterior_is_bayes_rule() -> None:
    features = torch.randn(2, 6, 3, generator=stream(0)) * 3
    joint = Normal(MEANS, TASK.scale).log_prob(features.unsqueeze(2)).sum(dim=3)  # (2, 6, K)

    torch.testing.assert_close(TASK.log_posterior(features), joint.log_softmax(dim=-1))


def _by_class(support: Support) -> torch.Tensor:
    """Return the rows of each class, (B, K, N, d_T)."""
    order = support.class_indices.argsort(dim=1).unsqueeze(2)
    rows = support.features.gather(1, order.expand_as(support.features))
    return rows.unflatten(1, (support.ways, -1))


def test_rows_have_the_means_and_scale_of_the_task() -> None:
    episode = TASK.sample(episodes=1, shots=20_000, queries=1, generator=stream(0))
    rows = _by_class(episode.support)[0]

    assert ((rows.mean(dim=1) - MEANS).abs() < 5 * TASK.scale / 20_000**0.5).all()
    torch.testing.assert_close(rows.std(dim=1), TASK.scale.expand(4, 3), rtol=0.03, atol=0)


def test_task_is_described() -> None:
    task: Task = TASK

    assert (task.name, task.feature_dim, task.ways) == ("gaussian", 3, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"means": torch.zeros(1, 3)}, r"means is out of range: got \(1, 3\); allowed: a shape"),
        ({"means": torch.zeros(3)}, r"means is out of range: got \(3,\)"),
        ({"means": MEANS * torch.nan}, "means is out of range: got NaN or infinite values"),
        ({"scale": torch.ones(2)}, r"scale is out of range: got \(2,\); allowed: the shape \(3,\)"),
        ({"scale": torch.tensor([1.0, 0.0, 1.0])}, "scale is out of range: .* numbers above 0"),
    ],
)
def test_wrong_tasks_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        replace(TASK, **changes)


@settings(deadline=None, max_examples=30)
@given(
    episodes=st.integers(1, 4),
    ways=st.integers(2, 8),
    shots=st.integers(1, 4),
    queries=st.integers(1, 4),
    width=st.integers(1, 40),
)
def test_episodes_have_the_shape_asked_for(
    episodes: int, ways: int, shots: int, queries: int, width: int
) -> None:
    episode = GaussianTasks(feature_dims=(width,)).instances(
        episodes=episodes, ways=ways, shots=shots, queries=queries, generator=stream(0)
    )
    episode.check_values()

    assert episode.support.features.shape == (episodes, ways * shots, width)
    assert episode.query.features.shape == (episodes, ways * queries, width)
    assert episode.support.shots().tolist() == [[shots] * ways] * episodes


def _draw(sampler: GaussianTasks, seed: int = 0, shots: int = 1, ways: int = 5) -> Episode:
    return sampler.instances(
        episodes=100, ways=ways, shots=shots, queries=5, generator=stream(seed)
    )


def test_all_widths_occur() -> None:
    sampler = GaussianTasks(feature_dims=(3, 7, 11))
    widths = {_draw(sampler, seed).support.feature_dim for seed in range(30)}

    assert widths == {3, 7, 11}


def test_the_generator_decides() -> None:
    first, again, other = (_draw(GaussianTasks(feature_dims=(4,)), seed) for seed in (0, 0, 1))

    assert torch.equal(first.query.features, again.query.features)
    assert not torch.equal(first.query.features, other.query.features)


@pytest.mark.parametrize(("width", "noise"), [(8, 1.0), (128, 2.0)])
def test_separation_and_noise_are_those_of_the_law(width: int, noise: float) -> None:
    sampler = GaussianTasks(feature_dims=(width,), separation=(1.5, 1.5), scale_spread=0.0)
    rows = _by_class(_draw(sampler, shots=200).support)

    assert float(rows.std(dim=2).mean()) == pytest.approx(noise, rel=0.01)
    assert float(rows.mean(dim=2).std()) == pytest.approx(1.5, rel=0.03)


def test_separation_is_log_uniform_and_scales_are_log_normal() -> None:
    sampler = GaussianTasks(feature_dims=(200,), separation=(0.5, 3.0))
    noise = (200 / 8) ** 0.25
    tasks = [sampler.task(ways=20, generator=stream(seed)) for seed in range(200)]
    scales = torch.stack([task.scale for task in tasks]) / noise  # (200, d_T)
    spreads = torch.stack([(task.means / task.scale).std() * noise for task in tasks])

    assert stats.kstest(scales.log().flatten().numpy(), "norm", (0, 0.7)).pvalue > 1e-3
    share = (spreads / 0.5).log() / torch.tensor(6.0).log()
    assert stats.kstest(share.numpy(), "uniform").pvalue > 1e-3


def test_tasks_of_a_batch_differ_in_separation() -> None:
    sampler = GaussianTasks(feature_dims=(64,), separation=(0.1, 10.0), scale_spread=0.0)
    rows = _by_class(_draw(sampler, shots=50).support)
    spreads = rows.mean(dim=2).std(dim=(1, 2))

    assert spreads.min() < 0.3
    assert spreads.max() > 5


def _one_nearest_neighbour_risk(episode: Episode) -> float:
    nearest = torch.cdist(episode.query.features, episode.support.features).argmin(dim=2)
    answers = episode.support.class_indices.gather(1, nearest)
    return float((answers != episode.query.class_indices).float().mean())


@pytest.mark.parametrize("width", [8, 32, 128])
def test_wide_tasks_are_not_trivial(width: int) -> None:
    law = GaussianTasks(feature_dims=(width,), separation=(1.0, 1.0), scale_spread=0.0)

    assert 0.15 < _one_nearest_neighbour_risk(_draw(law)) < 0.45


def test_wide_tasks_would_be_trivial_with_the_same_noise() -> None:
    means = torch.randn(5, 128, generator=stream(0))
    task = GaussianTask(means=means, scale=torch.ones(128))
    episode = task.sample(episodes=100, shots=1, queries=5, generator=stream(1))

    assert _one_nearest_neighbour_risk(episode) < 0.01


def test_recipe_table_builds_the_law() -> None:
    table = {"feature_dims": [4, 8], "separation": [1, 2.5]}

    assert from_table(GaussianTasks, table, "tasks") == GaussianTasks(
        feature_dims=(4, 8), separation=(1.0, 2.5)
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feature_dims": ()}, r"feature_dims is out of range: got \(\); allowed: one or more"),
        ({"feature_dims": (4, 0)}, r"feature_dims is out of range: got \(4, 0\)"),
        ({"separation": (2.0, 1.0)}, r"separation is out of range: got \(2\.0, 1\.0\); allowed"),
        ({"separation": (0.0, 1.0)}, "separation is out of range"),
        ({"separation": (1.0,)}, r"separation is out of range: .* allowed: two numbers"),
        ({"scale_spread": -0.1}, r"scale_spread is out of range: got -0\.1; allowed: 0 or more"),
    ],
)
def test_wrong_laws_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        GaussianTasks(**changes)


def test_wrong_counts_are_refused() -> None:
    counts = {"episodes": 2, "ways": 3, "shots": 1, "queries": 1}
    with pytest.raises(UserError, match="shots are too few: got 0"):
        GaussianTasks().instances(**{**counts, "shots": 0}, generator=stream(0))
    with pytest.raises(
        UserError, match=r"ways is out of range: got \(1, 1\); allowed: .* 2 <= low"
    ):
        GaussianTasks().instances(**{**counts, "ways": 1}, generator=stream(0))
