"""The block as it runs is the block as it is defined."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers.relational_blocks import CONFIG, BlockInputs, random_block, random_inputs
from unitail.randomness import stream
from unitail.relational import block as module
from unitail.relational.block import FusedBlock, _row_chunks

exact = {"rtol": 0, "atol": 1e-12}
cases = st.builds(
    random_inputs,
    shots=st.lists(st.integers(1, 4), min_size=2, max_size=5),
    seen_queries=st.integers(0, 4),
    rows=st.integers(1, 9),
    episodes=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
chunk_sizes = st.sampled_from([1, 7, 24, 2**13])


def plain(block: FusedBlock, inputs: BlockInputs) -> Tensor:
    return block(inputs.z, inputs.seen, inputs.labels, inputs.size, inputs.relations)


def fast(block: FusedBlock, inputs: BlockInputs) -> Tensor:
    cache = block.cache(inputs.seen, inputs.labels, inputs.size)
    return block.update(inputs.z, cache, inputs.relations)


@settings(max_examples=60, deadline=None)
@given(inputs=cases, states=chunk_sizes, seed=st.integers(0, 5))
def test_the_fused_block_is_the_plain_one(inputs: BlockInputs, states: int, seed: int) -> None:
    block = random_block(seed).requires_grad_(False)
    with patch.object(module, "STATES_PER_CHUNK", states):
        torch.testing.assert_close(fast(block, inputs), plain(block, inputs), **exact)


@settings(max_examples=60, deadline=None)
@given(
    shots=st.lists(st.integers(1, 4), min_size=2, max_size=5),
    rows=st.integers(1, 9),
    episodes=st.integers(1, 3),
    states=chunk_sizes,
    seed=st.integers(0, 1000),
)
def test_two_states_speak_for_all_that_know_no_more_than_their_label(
    shots: list[int], rows: int, episodes: int, states: int, seed: int
) -> None:
    block = random_block(seed).requires_grad_(False)
    inputs = random_inputs(shots, seen_queries=0, rows=rows, episodes=episodes, seed=seed)
    own, other = torch.randn(2, CONFIG.channels, generator=stream(seed), dtype=torch.float64)

    def tokens(labels: Tensor) -> Tensor:
        return torch.where(labels.unsqueeze(-1) > 0, own, other)

    with patch.object(module, "STATES_PER_CHUNK", states):
        cache = block.cache_two_states(torch.stack([own, other]), inputs.labels, inputs.size)
        once = block.update(inputs.z, cache, inputs.relations)
    expected = block(inputs.z, tokens(inputs.labels), inputs.labels, inputs.size, inputs.relations)
    torch.testing.assert_close(once, expected, **exact)


def test_gradients_are_the_plain_ones_too() -> None:
    gradients = []
    for way in (plain, fast):
        block, inputs = random_block(), random_inputs()
        inputs.z.requires_grad_()
        inputs.seen.requires_grad_()
        way(block, inputs).square().sum().backward()
        gradients.append([inputs.z.grad, inputs.seen.grad, *(w.grad for w in block.parameters())])
    for expected, got in zip(*gradients, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-10)


def test_gradients_of_two_states_are_those_of_all_they_speak_for() -> None:
    gradients = []
    for alike in (False, True):
        block, inputs = random_block(), random_inputs(seen_queries=0)
        tokens = torch.randn(2, CONFIG.channels, generator=stream(0), dtype=torch.float64)
        tokens.requires_grad_()
        if alike:
            cache = block.cache_two_states(tokens, inputs.labels, inputs.size)
        else:
            seen = torch.where(inputs.labels.unsqueeze(-1) > 0, *tokens)
            cache = block.cache(seen, inputs.labels, inputs.size)
        block.update(inputs.z, cache, inputs.relations).square().sum().backward()
        gradients.append([tokens.grad, *(w.grad for w in block.parameters())])
    for expected, got in zip(*gradients, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-10)


@pytest.fixture
def chunks() -> Iterator[None]:
    with patch.object(module, "STATES_PER_CHUNK", 12), patch.object(module, "MAX_CHUNKS", 4):
        yield


@pytest.mark.parametrize(("rows", "expected"), [(1, [1]), (7, [2, 2, 2, 1]), (40, [10] * 4)])
def test_chunks_hold_few_states_and_are_not_too_many(
    rows: int, expected: list[int], chunks: None
) -> None:
    states = torch.arange(2 * rows * 3 * 5.0).view(2, rows, 3, 5)
    pieces = list(_row_chunks(states, 2 * states))
    assert [len(piece[0][0]) for piece in pieces] == expected
    assert torch.equal(torch.cat([piece[0] for piece in pieces], dim=1), states)
    assert torch.equal(torch.cat([piece[1] for piece in pieces], dim=1), 2 * states)
