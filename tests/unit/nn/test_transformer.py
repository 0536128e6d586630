from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from unitail.nn.transformer import CachedSupport, Transformer, WaitingSupport
from unitail.nn.visibility import Visibility
from unitail.randomness import stream

DIM = 16


def transformer(layers: int = 3) -> Transformer:
    net = Transformer(dim=DIM, layers=layers, heads=2, mlp_dim=32)
    net.initialise(stream(0))
    return net


def tokens(count: int) -> Tensor:
    return torch.randn(1, count, DIM, generator=stream(count))


def flops(work: Callable[[], object]) -> int:
    """Count floating-point operations, with attention as the products it is made of."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        work()
    return counter.get_total_flops()


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
