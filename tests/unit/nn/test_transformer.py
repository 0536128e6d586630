import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.builders import flops
from unitail.nn.episode_model import Visibility
from unitail.nn.transformer import CachedSupport, Transformer, TransformerBlock, WaitingSupport
from unitail.randomness import stream

DIM = 16


def transformer(layers: int = 3) -> Transformer:
    net = Transformer(dim=DIM, layers=layers, heads=2, mlp_dim=32)
    net.initialise(stream(0))
    return net


def tokens(count: int) -> Tensor:
    return torch.randn(1, count, DIM, generator=stream(count))


def block() -> TransformerBlock:
    """Return a block all of whose weights matter, in float64."""
    made, generator = TransformerBlock(DIM, heads=2, mlp_dim=32).double(), stream(0)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    return made


def normed(tokens: Tensor, norm: nn.LayerNorm) -> Tensor:
    return F.layer_norm(tokens, (DIM,), norm.weight, norm.bias)


def updated(layer: TransformerBlock, tokens: Tensor, attended: Tensor) -> Tensor:
    """Apply the definition, given what attention makes of the tokens after their LayerNorm."""
    tokens = tokens + attended
    hidden = F.gelu(
        F.linear(normed(tokens, layer.mlp_norm), layer.mlp_in.weight, layer.mlp_in.bias)
    )
    return tokens + F.linear(hidden, layer.mlp_out.weight, layer.mlp_out.bias)


@pytest.mark.parametrize("causal", [False, True])
def test_a_block_is_attention_then_an_mlp_each_after_a_norm(causal: bool) -> None:
    layer, sequence = block(), tokens(5).double()
    attended = layer.attention(normed(sequence, layer.attention_norm), causal=causal)
    torch.testing.assert_close(layer(sequence, causal=causal), updated(layer, sequence, attended))


def test_a_block_reads_and_answers_by_the_same_rule() -> None:
    layer, support, query = block(), tokens(5).double(), tokens(3).double()
    attended, expected = layer.attention.read(normed(support, layer.attention_norm))
    read, kept = layer.read(support)
    torch.testing.assert_close(read, updated(layer, support, attended))
    for cache in (kept, layer.cache(support)):
        torch.testing.assert_close(cache.keys, expected.keys)
        torch.testing.assert_close(cache.values, expected.values)
    seen = layer.attention.answer(normed(query, layer.attention_norm), kept)
    torch.testing.assert_close(layer.answer(query, kept), updated(layer, query, seen))


def test_only_isolated_queries_allow_the_support_to_be_read_for_good() -> None:
    net = transformer()
    read = net.read(tokens(4), Visibility.ISOLATED)
    assert isinstance(read, CachedSupport)
    assert len(read.layers) == 3
    for visibility, causal in ((Visibility.JOINT, False), (Visibility.CAUSAL, True)):
        waiting = net.read(tokens(4), visibility)
        assert isinstance(waiting, WaitingSupport)
        assert waiting.causal is causal


def test_the_initial_scale_does_not_grow_with_depth() -> None:
    """The sum of the residual branches stays at the scale of one, however many there are."""
    spread = []
    for layers in (2, 32):
        net, query = transformer(layers), tokens(200)
        moved = query
        for block in net.blocks:
            moved = block(moved, causal=False)
        spread.append(float((moved - query).detach().std()))
    assert spread[1] < 2 * spread[0]


def test_answering_costs_in_proportion_to_the_queries() -> None:
    """n^2 + n m: doubling m doubles the work of answering, and reading knows nothing of m."""
    net = transformer()
    memory = net.read(tokens(40), Visibility.ISOLATED)
    once = flops(lambda: net.answer(memory, tokens(50)))
    twice = flops(lambda: net.answer(memory, tokens(100)))
    assert twice == 2 * once


def test_a_cached_support_is_not_read_again() -> None:
    """Answering one query from a cache must cost far less than reading the support."""
    net = transformer()
    reading = flops(lambda: net.read(tokens(40), Visibility.ISOLATED))
    memory = net.read(tokens(40), Visibility.ISOLATED)
    assert flops(lambda: net.answer(memory, tokens(1))) < reading / 10


@pytest.mark.parametrize("visibility", [Visibility.JOINT, Visibility.CAUSAL])
def test_queries_that_see_each_other_cost_their_square(visibility: Visibility) -> None:
    net = transformer()
    memory = net.read(tokens(40), visibility)
    once = flops(lambda: net.answer(memory, tokens(500)))
    twice = flops(lambda: net.answer(memory, tokens(1000)))
    assert twice > 2.2 * once


def test_the_whole_network_is_attention_under_the_isolated_mask() -> None:
    """Layer by layer, with the matrix that defines the policy."""
    net = transformer().double()
    sequence = torch.randn(2, 9, DIM, generator=stream(1), dtype=torch.float64)
    mask = Visibility.ISOLATED.matrix(4, 5)
    states = sequence
    for block in net.blocks:
        heads = block.attention.qkv(block.attention_norm(states)).unflatten(-1, (3, 2, DIM // 2))
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        states = states + block.attention.out(seen.transpose(1, 2).flatten(-2))
        states = states + block.mlp_out(F.gelu(block.mlp_in(block.mlp_norm(states))))
    memory = net.read(sequence[:, :4], Visibility.ISOLATED)
    torch.testing.assert_close(net.answer(memory, sequence[:, 4:]), net.norm(states)[:, 4:])
