from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.builders import random_episode
from unitail.baselines.gpicl import GaussianLaw, Gpicl, GpiclConfig
from unitail.errors import InvalidConfig
from unitail.nn.episode_model import Visibility
from unitail.nn.slot_model import Draw
from unitail.randomness import stream

CONFIG = GpiclConfig(
    projected_dim=6, classes=4, hidden_dim=8, layers=2, heads=2, mlp_dim=12, positions=9
)


def small(**changes: Any) -> Gpicl:  # noqa: ANN401
    return Gpicl(replace(CONFIG, **changes), seed=1).double()


def final_states(model: Gpicl, features: Tensor, queries: Tensor) -> Tensor:
    """Return what the last block makes of all positions, for slots in turn."""
    states: list[Tensor] = []
    handle = model.transformer.blocks[-1].register_forward_hook(
        lambda _, inputs, output: states.append(output)
    )
    slots = torch.arange(features.shape[1]).remainder(4).expand(len(features), -1)
    model.score_slots(model.remember(features, slots, Visibility.ISOLATED), queries)
    handle.remove()
    return states[0]


def test_the_scores_are_those_of_a_causal_transformer_with_positions() -> None:
    """Written out, with a matrix of who sees whom."""
    model = small()
    features = torch.randn(2, 5, 6, generator=stream(1), dtype=torch.float64)
    query = torch.randn(2, 1, 6, generator=stream(2), dtype=torch.float64)
    slots = torch.tensor([[0, 1, 2, 3, 0], [3, 3, 1, 0, 2]])
    labels = F.pad(F.one_hot(slots, 4), (0, 0, 0, 1))  # (2, 6, 4), the query's is blank
    joined = torch.cat([torch.cat([features, query], dim=1), labels], dim=-1)
    states = model.entry(joined) + model.positions[:6]
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    for block in model.transformer.blocks:
        heads = block.attention.qkv(block.attention_norm(states)).unflatten(-1, (3, 2, 4))
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        states = states + block.attention.out(seen.transpose(1, 2).flatten(-2))
        states = states + block.mlp_out(F.gelu(block.mlp_in(block.mlp_norm(states))))
    expected = model.head(model.transformer.norm(states))[:, -1:]
    memory = model.remember(features, slots, Visibility.ISOLATED)
    torch.testing.assert_close(model.score_slots(memory, query), expected)


def test_positions_are_weights_that_learn() -> None:
    model, episode = small(), random_episode((2, 2, 1))
    assert isinstance(model.positions, nn.Parameter)
    assert dict(model.named_parameters())["positions"] is model.positions
    assert model.positions.abs().max() > 0
    model(episode, model.draw(episode.support, stream(0))).logsumexp(-1).sum().backward()
    assert model.positions.grad is not None
    learns = model.positions.grad.abs().amax(-1) > 0
    assert torch.equal(learns, torch.arange(9) < 6)  # five examples and the query


def test_a_token_sees_itself_and_what_precedes_it() -> None:
    model = small()
    features = torch.randn(1, 5, 6, generator=stream(1), dtype=torch.float64)
    query = torch.randn(1, 1, 6, generator=stream(2), dtype=torch.float64)
    states = final_states(model, features, query)
    for position in range(5):
        other = features.clone()
        other[:, position] += 1
        moved = ((final_states(model, other, query) - states).abs() > 1e-12).any(-1)[0]
        assert torch.equal(moved, torch.arange(6) >= position)
    moved = ((final_states(model, features, query + 1) - states).abs() > 1e-12).any(-1)[0]
    assert torch.equal(moved, torch.arange(6) == 5)


def test_the_order_of_the_support_matters() -> None:
    model, episode = small(), random_episode((2, 2, 1))
    draw = model.draw(episode.support, stream(0))
    support = episode.support
    turned = replace(
        support, features=support.features.flip(1), class_indices=support.class_indices.flip(1)
    )
    scores = model(episode, draw)
    assert (model(replace(episode, support=turned), draw) - scores).abs().max() > 1e-4


def test_a_longer_table_of_positions_changes_nothing() -> None:
    short, long, episode = small(positions=6), small(positions=50), random_episode((2, 2, 1))
    assert (short.config.max_support, long.config.max_support) == (5, 49)
    weights = long.state_dict()
    short.load_state_dict(weights | {"positions": weights["positions"][:6]})
    draw = long.draw(episode.support, stream(0))
    assert torch.equal(short(episode, draw), long(episode, draw))


@pytest.mark.parametrize("width", [3, 16, 200])
def test_projections_are_gaussian_at_any_width_and_keep_the_scale(width: int) -> None:
    law = GaussianLaw(64)
    projection = law.draw(50, width, stream(0))
    assert projection.matrix.shape == (50, width, 64)
    assert float(projection.matrix.std()) == pytest.approx(width**-0.5, rel=0.05)
    flat = projection.matrix.flatten() * width**0.5
    assert float(flat.pow(4).mean()) == pytest.approx(3, rel=0.15)  # as of a normal variable
    features = torch.randn(50, 20, width, generator=stream(1))
    assert float(projection(features).std()) == pytest.approx(1, rel=0.05)


def test_every_episode_is_projected_anew() -> None:
    model, episode = small(), random_episode(feature_dim=30)
    draw = model.draw(episode.support, stream(0))
    assert not torch.allclose(draw.projection.matrix[0], draw.projection.matrix[1])
    other = Draw(model.draw(episode.support, stream(1)).projection, draw.injection)
    assert not torch.allclose(model(episode, draw), model(episode, other))


def test_the_default_is_the_published_replica() -> None:
    config = GpiclConfig()
    assert (config.layers, config.hidden_dim, config.heads) == (4, 256, 8)


def test_labels_are_seen_from_the_start() -> None:
    weight = Gpicl(GpiclConfig()).entry.weight
    assert weight[:, :256].std().item() == pytest.approx(0.8 / 261**0.5, rel=0.02)
    assert weight[:, 256:].std().item() == pytest.approx(0.8, rel=0.1)


def test_sizes_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="positions is out of range: got 1; allowed: 2 or more"):
        replace(CONFIG, positions=1)
    with pytest.raises(InvalidConfig, match=r"hidden_dim .* got 9; allowed: a multiple of the 2 h"):
        replace(CONFIG, hidden_dim=9)
    with pytest.raises(InvalidConfig, match="layers is out of range: got 0; allowed: 1 or more"):
        replace(CONFIG, layers=0)
