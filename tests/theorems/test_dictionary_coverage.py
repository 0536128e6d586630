"""Proposition A.3 (coverage over t episodes): N_j(t) ~ Binomial(t, K/M)."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from helpers.builders import random_support, small_model
from unitail.nn.slot_model import draw_injections
from unitail.randomness import stream

RUNS, EPISODES = 4000, 12


def uses(injections: Tensor, slots: int) -> Tensor:
    """Count the episodes that use each slot: (runs, episodes, K) -> (runs, M)."""
    return (injections.unsqueeze(-1) == torch.arange(slots)).any(dim=2).sum(dim=1)


def chi_square(counts: Tensor, probability: float) -> float:
    """Compare the distribution of N_j(t) over runs with the binomial law: the p-value."""
    observed = np.bincount(counts.numpy(), minlength=EPISODES + 1)
    expected = len(counts) * stats.binom.pmf(np.arange(EPISODES + 1), EPISODES, probability)
    common = expected >= 5
    folded = [np.append(part[common], part[~common].sum()) for part in (observed, expected)]
    return float(stats.chisquare(*folded).pvalue)


@pytest.mark.parametrize(("ways", "slots"), [(2, 7), (5, 7), (3, 20)])
def test_every_slot_is_used_as_the_binomial_law_says(ways: int, slots: int) -> None:
    drawn = draw_injections(RUNS * EPISODES, ways, slots, stream(0, ways, slots))
    counts = uses(drawn.view(RUNS, EPISODES, ways), slots)  # (runs, M): N_j(t)
    for slot in range(slots):
        assert chi_square(counts[:, slot], ways / slots) > 1e-4


def test_the_chernoff_bound_holds_for_what_is_drawn() -> None:
    ways, slots, delta = 3, 20, 0.9
    drawn = draw_injections(RUNS * EPISODES, ways, slots, stream(1))
    counts = uses(drawn.view(RUNS, EPISODES, ways), slots)
    mean = EPISODES * ways / slots
    rare = (counts <= (1 - delta) * mean).double().mean()
    assert 0 < rare <= np.exp(-(delta**2) * mean / 2)


def test_all_injections_are_equally_likely() -> None:
    """Theorem A.1 needs more than coverage: rho and rho o sigma^-1 must be equally likely."""
    drawn = draw_injections(60_000, 2, 5, stream(2))
    assert (drawn[:, 0] != drawn[:, 1]).all()
    counts = torch.bincount(drawn[:, 0] * 5 + drawn[:, 1], minlength=25)
    assert stats.chisquare(counts[counts > 0].numpy()).pvalue > 1e-4
    assert (counts > 0).sum() == 20


def test_the_model_draws_its_injections_from_that_law() -> None:
    """A model whose slots were fixed would use the first K of them in every episode."""
    model = small_model()
    support = random_support((1, 1), episodes=2000)
    injection = model.draw(support, stream(3)).injection
    counts = uses(injection.unsqueeze(0), model.config.dictionary_size)[0]
    probability = 2 / model.config.dictionary_size
    for count in counts:
        assert stats.binomtest(int(count), 2000, probability).pvalue > 1e-4


def test_a_growing_dictionary_uses_only_its_active_slots() -> None:
    model = small_model()
    draw = model.draw_for(episodes=500, ways=2, feature_dim=5, generator=stream(4), active_slots=3)
    injection = draw.injection
    assert set(injection.flatten().tolist()) == {0, 1, 2}
