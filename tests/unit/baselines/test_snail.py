import math
from typing import Any, TypeVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.builders import random_episode
from unitail.baselines.snail import CausalAttention, DenseBlock, Snail, SnailConfig
from unitail.errors import InvalidConfig
from unitail.nn.episode_model import Visibility
from unitail.randomness import stream

Layer = TypeVar("Layer", bound=nn.Module)


def small(**changes: Any) -> Snail:  # noqa: ANN401
    sizes = {"key_dims": (4, 6, 8), "value_dims": (3, 5, 7), "filters": 4} | changes
    return seeded(Snail(SnailConfig(feature_dim=5, classes=3, **sizes)))


def states(tokens: int, width: int = 8) -> Tensor:
    return torch.randn(2, tokens, width, generator=stream(0), dtype=torch.float64)


def attention() -> CausalAttention:
    return seeded(CausalAttention(8, key_dim=4, value_dim=3))


def dense(dilation: int) -> DenseBlock:
    return seeded(DenseBlock(8, filters=4, dilation=dilation))


def seeded(layer: Layer) -> Layer:
    """Let every weight matter, biases too."""
    generator = stream(1)
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.5, generator=generator)
    return layer.double()


def changed(layer: nn.Module, tokens: Tensor, position: int) -> Tensor:
    """Return which output positions change with the token at `position`: (T,)."""
    other = tokens.clone()
    other[:, position] += 1
    return ((layer(other) - layer(tokens)).abs() > 1e-12).any(-1).any(0)


def reference_attention(layer: CausalAttention, tokens: Tensor, unseen: int = 0) -> Tensor:
    """Attend position by position: a softmax over the keys from `unseen` to the position."""
    key_dim, _, value_dim = layer.parts
    q, k, v = layer.qkv(tokens).split((key_dim, key_dim, value_dim), dim=-1)
    rows = []
    for last in range(unseen, tokens.shape[1]):
        keys, values = k[:, unseen : last + 1], v[:, unseen : last + 1]
        shares = ((keys @ q[:, last].unsqueeze(-1)).squeeze(-1) / math.sqrt(key_dim)).exp()
        shares = shares / shares.sum(dim=1, keepdim=True)  # over the keys
        rows.append((shares.unsqueeze(-1) * values).sum(dim=1))
    seen = torch.stack(rows, dim=1)
    return torch.cat([tokens, F.pad(seen, (0, 0, unseen, 0))], dim=-1)


def reference_dense(layer: DenseBlock, tokens: Tensor) -> Tensor:
    """Convolve, with zeros before the first position."""
    kernel = torch.stack([layer.earlier.weight, layer.now.weight], dim=-1)  # (2 filters, width, 2)
    padded = F.pad(tokens.transpose(1, 2), (layer.dilation, 0))
    both = F.conv1d(padded, kernel, layer.now.bias, dilation=layer.dilation).transpose(1, 2)
    signal, gate = both.chunk(2, dim=-1)
    return torch.cat([tokens, signal.tanh() * gate.sigmoid()], dim=-1)


def test_attention_is_a_softmax_over_the_keys_so_far() -> None:
    layer, tokens = attention(), states(6)
    torch.testing.assert_close(layer(tokens), reference_attention(layer, tokens))
    assert layer(tokens).shape == (2, 6, 8 + 3)


@pytest.mark.parametrize("dilation", [1, 2, 5, 6, 9])
def test_a_dense_block_is_a_gated_causal_convolution_joined_to_its_input(dilation: int) -> None:
    layer, tokens = dense(dilation), states(6)
    torch.testing.assert_close(layer(tokens), reference_dense(layer, tokens))
    assert layer(tokens).shape == (2, 6, 8 + 4)


def test_attention_sees_all_that_precedes_and_nothing_that_follows() -> None:
    layer, tokens = attention(), states(6)
    for position in range(6):
        assert torch.equal(changed(layer, tokens, position), torch.arange(6) >= position)


def test_a_convolution_sees_two_positions() -> None:
    layer, tokens = dense(2), states(6)
    for position in range(6):
        expected = torch.tensor([row in (position, position + 2) for row in range(6)])
        assert torch.equal(changed(layer, tokens, position), expected)


def test_the_whole_network_is_causal() -> None:
    network, tokens = small().layers, states(9)
    for position in range(9):
        assert torch.equal(changed(network, tokens, position), torch.arange(9) >= position)


@pytest.mark.parametrize(
    ("most_support", "dilations"),
    [
        (1, (1,)),
        (2, (1, 2)),
        (3, (1, 2)),
        (4, (1, 2, 4)),
        (25, (1, 2, 4, 8, 16)),
        (31, (1, 2, 4, 8, 16)),
        (32, (1, 2, 4, 8, 16, 32)),
    ],
)
def test_dilations_double_until_the_sequence_is_covered(
    most_support: int, dilations: tuple[int, ...]
) -> None:
    config = SnailConfig(most_support=most_support)
    assert config.dilations == dilations
    assert len(dilations) == math.ceil(math.log2(most_support + 1))


@pytest.mark.parametrize("most_support", [3, 7])
def test_convolutions_alone_reach_from_the_query_to_the_first_example(most_support: int) -> None:
    """With T a power of two they reach T tokens and not one more."""
    layers = small(most_support=most_support).layers
    blocks = [layer for layer in layers if isinstance(layer, DenseBlock)]
    first = blocks[: len(blocks) // 2]  # those between two attentions
    width = first[0].now.in_features
    tokens = states(most_support + 2, width)
    reached = [
        bool(changed(nn.Sequential(*first), tokens, position)[-1])
        for position in range(most_support + 2)
    ]
    assert reached == [False] + [True] * (most_support + 1)


def test_the_default_is_the_published_network() -> None:
    model = Snail(SnailConfig())
    attentions = [layer for layer in model.layers if isinstance(layer, CausalAttention)]
    assert [layer.parts for layer in attentions] == [
        (64, 64, 32),
        (256, 256, 128),
        (512, 512, 256),
    ]
    convolution = [1, 2, 4, 8, 16]
    kinds = [getattr(layer, "dilation", "attention") for layer in model.layers]
    assert kinds == ["attention", *convolution, "attention", *convolution, "attention"]
    assert all(
        layer.now.out_features == layer.earlier.out_features == 2 * 128
        for layer in model.layers
        if isinstance(layer, DenseBlock)
    )
    widths = [layer.qkv.in_features for layer in attentions]
    assert widths == [1285, 1285 + 32 + 5 * 128, 1285 + 32 + 128 + 10 * 128]
    assert model.head.in_features == 1285 + 32 + 128 + 256 + 10 * 128
    assert model.head.out_features == 5


def test_labels_are_seen_from_the_start() -> None:
    model = Snail(SnailConfig())
    for layer in (model.layers[0].qkv, model.layers[1].now, model.layers[1].earlier):
        deviation, columns = 0.8 / layer.in_features**0.5, layer.weight[:, :1285]
        assert columns[:, :1280].std().item() == pytest.approx(deviation, rel=0.02)
        assert columns[:, 1280:].std().item() == pytest.approx(0.8, rel=0.1)


def test_tokens_are_features_and_one_hot_slots_with_the_query_last_and_blank() -> None:
    model, episode, seen = small(), random_episode(), []
    model.layers.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    features, queries = episode.support.features, episode.query.features
    slots = torch.tensor([[2, 0, 1, 1, 2, 0], [1, 0, 0, 2, 2, 1]])
    scores = model.score_slots(model.remember(features, slots, Visibility.ISOLATED), queries)
    (tokens,) = seen
    assert tokens.shape == (8, 7, 5 + 3)
    for row in range(8):
        labelled = torch.cat([features[row // 4], F.one_hot(slots[row // 4], 3)], dim=-1)
        asked = F.pad(queries[row // 4, row % 4], (0, 3))
        assert torch.equal(tokens[row], torch.cat([labelled, asked.unsqueeze(0)]))
    states = model.layers(tokens)
    torch.testing.assert_close(scores.flatten(0, 1), model.head(states[:, -1]))


@pytest.mark.parametrize("padding", [1, 3])
@pytest.mark.parametrize("content", [0.0, 100.0])
def test_reading_at_length_is_padding_on_the_left_that_no_layer_sees(
    padding: int, content: float
) -> None:
    model, tokens = small(most_support=7), states(8 - padding)
    padded = F.pad(tokens, (0, 0, padding, 0), value=content)
    real = (torch.arange(8) >= padding).unsqueeze(-1)
    for layer in model.layers:
        if isinstance(layer, CausalAttention):
            padded = reference_attention(layer, padded, unseen=padding)
        else:
            padded = reference_dense(layer, torch.where(real, padded, 0))
    torch.testing.assert_close(model.layers(tokens), padded[:, padding:])


def test_a_longer_limit_with_as_many_convolutions_changes_nothing() -> None:
    episode, answers = random_episode((2, 1, 1)), []
    for most_support in (4, 7):
        model = small(most_support=most_support)
        answers.append(model(episode, model.draw(episode.support, stream(0))))
    assert torch.equal(*answers)


def test_sizes_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="most_support is out of range: got 0; allowed: 1 or"):
        SnailConfig(most_support=0)
    with pytest.raises(InvalidConfig, match=r"key_dims is out of range: got \(\); allowed: one or"):
        SnailConfig(key_dims=(), value_dims=())
    with pytest.raises(InvalidConfig, match=r"value_dims .* got \(1, 2\); allowed: 3 widths, as k"):
        SnailConfig(value_dims=(1, 2))


def test_no_kernel_of_cudnn_whose_backward_pass_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    attend, allowed = F.scaled_dot_product_attention, []

    def watched(*args: Any, **options: Any) -> Tensor:  # noqa: ANN401
        allowed.append(torch.backends.cuda.cudnn_sdp_enabled())
        return attend(*args, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watched)
    attention()(states(4))
    assert allowed == [False]
