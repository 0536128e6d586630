"""Proposition A.8 (coordinate coverage): N_j(t) ~ Binomial(t, d_T / d_data)."""

import numpy as np
import pytest
import torch
from scipy import stats

from helpers.builders import random_support, small_model
from unitail.randomness import stream

EPISODES, RUNS = 10, 3000


@pytest.mark.parametrize("feature_dim", [1, 5, 11])
def test_every_coordinate_is_fed_as_the_binomial_law_says(feature_dim: int) -> None:
    """The draw of the model itself, applied to features without a zero."""
    model = small_model()
    width = model.config.projected_dim
    support = random_support((1, 1), episodes=RUNS * EPISODES, feature_dim=feature_dim)
    projection = model.draw(support, stream(0, feature_dim)).projection
    fed = (projection(support.features[:, :1]) != 0).view(RUNS, EPISODES, width)
    counts = fed.sum(dim=1)  # (runs, d_data): N_j(t)

    pmf = stats.binom.pmf(np.arange(EPISODES + 1), EPISODES, feature_dim / width)
    common = RUNS * pmf >= 5
    for column in counts.unbind(dim=1):
        observed = np.bincount(column.numpy(), minlength=EPISODES + 1)
        folded = [np.append(part[common], part[~common].sum()) for part in (observed, RUNS * pmf)]
        filled = [part[folded[1] > 0] for part in folded]
        assert stats.chisquare(*filled).pvalue > 1e-5  # 12 coordinates, 3 widths


def test_the_chernoff_bound_holds_for_what_is_drawn() -> None:
    model, feature_dim, delta = small_model(), 4, 0.8
    support = random_support((1, 1), episodes=RUNS * EPISODES, feature_dim=feature_dim)
    projection = model.draw(support, stream(2)).projection
    fed = projection(support.features[:, :1]) != 0
    counts = fed.view(RUNS, EPISODES, model.config.projected_dim).sum(dim=1)
    mean = EPISODES * feature_dim / model.config.projected_dim
    rare = (counts <= (1 - delta) * mean).double().mean()
    assert 0 < rare <= np.exp(-(delta**2) * mean / 2)


def test_an_extended_permutation_is_injective_and_keeps_every_value() -> None:
    """Definition A.6: each column one 1, each row at most one 1."""
    model = small_model()
    support = random_support((1, 1), episodes=200, feature_dim=9)
    projection = model.draw(support, stream(1)).projection
    projected = projection(support.features)
    kept = projected.sort(dim=-1).values
    padded = torch.nn.functional.pad(support.features, (0, model.config.projected_dim - 9))
    assert torch.equal(kept, padded.sort(dim=-1).values)
