from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from helpers.builders import random_episode
from unitail.baselines.caml import Caml, CamlConfig, elmes
from unitail.errors import InvalidConfig
from unitail.nn.episode_model import Visibility
from unitail.randomness import stream

CONFIG = CamlConfig(feature_dim=5, classes=4, label_dim=7, layers=2, heads=3, mlp_dim=16)


def small(**changes: Any) -> Caml:  # noqa: ANN401
    return Caml(replace(CONFIG, **changes), seed=1).double()


@pytest.mark.parametrize(("classes", "label_dim"), [(2, 2), (4, 7), (5, 256), (100, 256)])
def test_label_codes_are_equally_long_and_equally_far_apart(classes: int, label_dim: int) -> None:
    codes = elmes(classes, label_dim, stream(0))
    assert codes.shape == (classes, label_dim)
    expected = torch.full((classes, classes), -1 / (classes - 1)).fill_diagonal_(1)
    torch.testing.assert_close(codes @ codes.T, expected, rtol=0, atol=1e-6)


def test_the_models_label_codes_are_kept_and_not_trained() -> None:
    model, other = Caml(CONFIG, seed=1), Caml(CONFIG, seed=2)
    assert "codes" in model.state_dict()
    assert "codes" not in dict(model.named_parameters())
    assert not model.codes.requires_grad
    assert torch.equal(model.codes, Caml(CONFIG, seed=1).codes)
    assert not torch.allclose(model.codes, other.codes)
    gram = model.codes @ model.codes.T
    torch.testing.assert_close(gram.diagonal(), torch.ones(4), rtol=0, atol=1e-6)


def test_the_scale_of_the_codes_and_the_unknown_label_are_trained() -> None:
    model, episode = small(), random_episode()
    model(episode, model.draw(episode.support, stream(0)))[..., 0].sum().backward()
    assert model.scale.numel() == 1
    for weight in (model.scale, model.unknown):
        assert isinstance(weight, nn.Parameter)
        assert weight.grad is not None
        assert weight.grad.abs().max() > 0
    assert model.unknown.shape == (7,)


@pytest.mark.parametrize(("normalisation", "scale"), [("none", 1), ("support", 7**0.5)])
def test_the_scale_starts_at_the_published_one_or_at_that_of_normalised_features(
    normalisation: str, scale: float
) -> None:
    assert small(normalisation=normalisation).scale.item() == pytest.approx(scale)


def test_the_scores_are_those_of_an_encoder_with_the_query_first() -> None:
    """As published: all see all, and the query's state goes to the head."""
    model = small()
    nn.init.normal_(model.unknown, generator=stream(3))
    features = torch.randn(2, 5, 5, generator=stream(1), dtype=torch.float64)
    query = torch.randn(2, 1, 5, generator=stream(2), dtype=torch.float64)
    slots = torch.tensor([[0, 1, 2, 3, 0], [3, 3, 1, 0, 2]])
    labelled = torch.cat([features, model.scale * model.codes[slots]], dim=-1)
    asked = torch.cat([query, model.unknown.expand(2, 1, 7)], dim=-1)
    states = torch.cat([asked, labelled], dim=1)
    for block in model.transformer.blocks:
        states = block(states, causal=False)
    expected = model.transformer.norm(states)[:, :1] @ model.head.weight.T
    memory = model.remember(features, slots, Visibility.ISOLATED)
    torch.testing.assert_close(model.score_slots(memory, query), expected)


def test_the_order_of_the_support_does_not_matter() -> None:
    model, episode = small(), random_episode()
    draw, support = model.draw(episode.support, stream(0)), episode.support
    order = torch.randperm(support.num_support, generator=stream(1))
    shuffled = replace(
        support,
        features=support.features[:, order],
        class_indices=support.class_indices[:, order],
    )
    scores = model(episode, draw)
    again = model(replace(episode, support=shuffled), draw)
    torch.testing.assert_close(again, scores, rtol=1e-10, atol=1e-12)


def test_there_is_no_limit_to_the_support() -> None:
    model, episode = small(), random_episode((40, 40))
    assert model.config.max_support is None
    assert model(episode, model.draw(episode.support, stream(0))).shape == (2, 4, 2)


def test_the_head_has_no_bias_and_the_norms_the_published_epsilon() -> None:
    model = small()
    assert model.head.bias is None
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == 2 * 2 + 1
    assert {norm.eps for norm in norms} == {1e-6}


def test_the_default_is_the_published_network() -> None:
    config = CamlConfig()
    assert (config.layers, config.heads, config.mlp_dim, config.label_dim) == (24, 16, 4096, 256)
    assert config.hidden_dim == 1280 + 256


def test_sizes_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="classes is out of range: got 8; allowed: 2 to label"):
        replace(CONFIG, classes=8)
    message = r"feature_dim .* got 6; allowed: with label_dim, 7, a multiple of the 3 heads"
    with pytest.raises(InvalidConfig, match=message):
        replace(CONFIG, feature_dim=6)
