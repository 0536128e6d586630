"""Definition A.7 (coordinate-symmetric learning).

Training with sigma o pi in place of pi, from weights whose coordinates are permuted alike, ends at
the same function: its weights are those of the other run, permuted. What the definition claims of
expected performance follows, since the start is as likely permuted as not.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from helpers.builders import random_episode
from helpers.coordinates import PlacesReordered
from helpers.twin_runs import LABEL_DIM, PLACES, WIDTH, largest_change, trained
from unitail.randomness import stream
from unitail.tail.model import Tail

SIGMA = torch.randperm(PLACES, generator=stream(0, "places"))
STREAM = ("norm.weight", "norm.bias", "out.weight", "out.bias")
"""Endings of weights whose first axis is the residual stream."""
FROM_STREAM = ("qkv.weight", "mlp_in.weight", "head.weight")
"""Endings of weights whose second axis is the residual stream."""
WITH_ENTRY, WITHOUT = {"hidden_dim": 20}, {"hidden_dim": PLACES + LABEL_DIM}


def permuted(model: Tail) -> dict[str, Tensor]:
    """Return the weights that do with sigma(x) what the model's do with x."""
    order = torch.cat([SIGMA.argsort(), torch.arange(PLACES, PLACES + LABEL_DIM)])
    weights = model.state_dict()
    if "tokens.entry.weight" in weights:
        entry = weights["tokens.entry.weight"]
        return {**weights, "tokens.entry.weight": entry[:, order]}
    for name, value in weights.items():  # the stream itself begins with the features
        if name.endswith(STREAM):
            weights[name] = value[order]
        elif name.endswith(FROM_STREAM):
            weights[name] = value[:, order]
    return weights


def composed(model: Tail) -> None:
    """Let the model draw sigma o pi."""
    model.projections = PlacesReordered(model.projections, SIGMA)


def permuted_and_composed(model: Tail) -> None:
    model.load_state_dict(permuted(model))
    composed(model)


@pytest.mark.parametrize("config", [WITH_ENTRY, WITHOUT])
def test_training_with_permuted_places_ends_at_permuted_weights(
    config: dict[str, int], tmp_path: Path
) -> None:
    begun, one = trained(tmp_path / "one", **config)
    _, other = trained(tmp_path / "other", permuted_and_composed, **config)
    expected = Tail(one.config).double()
    expected.load_state_dict(permuted(one))
    assert largest_change(begun, one) > 1e-2
    assert largest_change(one, other) > 1e-2
    assert largest_change(expected, other) < 1e-9


@pytest.mark.parametrize("config", [WITH_ENTRY, WITHOUT])
def test_the_two_answer_alike_under_their_own_draws(config: dict[str, int], tmp_path: Path) -> None:
    _, one = trained(tmp_path / "one", **config)
    _, other = trained(tmp_path / "other", permuted_and_composed, **config)
    episode = random_episode((2, 1, 3), feature_dim=WIDTH)
    answers = [
        model(episode, model.draw(episode.support, stream(1, "new draw"))) for model in (one, other)
    ]
    torch.testing.assert_close(answers[0], answers[1], rtol=0, atol=1e-8)


@pytest.mark.parametrize("change", [composed, lambda model: model.load_state_dict(permuted(model))])
def test_only_both_permutations_together_undo_each_other(
    change: Callable[[Tail], None], tmp_path: Path
) -> None:
    """The test above can fail: with one of the two, training ends elsewhere."""
    _, one = trained(tmp_path / "one", **WITH_ENTRY)
    _, other = trained(tmp_path / "other", change, **WITH_ENTRY)
    expected = Tail(one.config).double()
    expected.load_state_dict(permuted(one))
    assert min(largest_change(expected, other), largest_change(one, other)) > 1e-3
