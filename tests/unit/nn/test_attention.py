import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unitail.nn.attention import Attention
from unitail.nn.episode_model import Visibility
from unitail.randomness import stream


def attention(dim: int = 12, heads: int = 3) -> Attention:
    torch.manual_seed(0)
    return Attention(dim, heads).double()


def masked(layer: Attention, tokens: Tensor, mask: Tensor) -> Tensor:
    """Apply the definition: softmax over the visible tokens, with an explicit mask."""
    batch, length, dim = tokens.shape
    q, k, v = (
        part.view(batch, length, layer.heads, -1).transpose(1, 2)
        for part in layer.qkv(tokens).chunk(3, dim=-1)
    )
    scores = q @ k.mT / (dim // layer.heads) ** 0.5
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return F.linear((weights @ v).transpose(1, 2).flatten(2), layer.out.weight, layer.out.bias)


def tokens(length: int, seed: int) -> Tensor:
    return 3 * torch.randn(2, length, 12, generator=stream(seed), dtype=torch.float64)


@given(support=st.integers(1, 6), query=st.integers(1, 6), seed=st.integers(0, 99))
def test_reading_and_answering_is_attention_under_the_isolated_mask(
    support: int, query: int, seed: int
) -> None:
    layer, sequence = attention(), tokens(support + query, seed)
    expected = masked(layer, sequence, Visibility.ISOLATED.matrix(support, query))
    attended, kept = layer.read(sequence[:, :support])
    answered = layer.answer(sequence[:, support:], kept)
    torch.testing.assert_close(torch.cat([attended, answered], dim=1), expected)
    again = layer.answer(sequence[:, support:], layer.cache(sequence[:, :support]))
    assert torch.equal(again, answered)


@pytest.mark.parametrize("visibility", [Visibility.JOINT, Visibility.CAUSAL])
def test_one_sequence_is_attention_under_its_mask(visibility: Visibility) -> None:
    layer, sequence = attention(), tokens(7, 0)
    attended = layer(sequence, causal=visibility is Visibility.CAUSAL)
    torch.testing.assert_close(attended, masked(layer, sequence, visibility.matrix(4, 3)))


def test_gradients_flow_as_through_the_mask() -> None:
    layer, sequence = attention(), tokens(7, 0).requires_grad_()
    attended, kept = layer.read(sequence[:, :4])
    torch.cat([attended, layer.answer(sequence[:, 4:], kept)], dim=1).pow(2).sum().backward()
    assert sequence.grad is not None
    gradient, sequence.grad = sequence.grad.clone(), None
    masked(layer, sequence, Visibility.ISOLATED.matrix(4, 3)).pow(2).sum().backward()
    torch.testing.assert_close(gradient, sequence.grad)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_good_as_under_a_mask(dtype: torch.dtype) -> None:
    """The score with itself must not be rounded more than the scores with others."""
    layer, sequence = attention(), tokens(40, 0)
    exact = masked(layer, sequence, Visibility.ISOLATED.matrix(10, 30))[:, 10:]
    layer, sequence = layer.to(dtype), sequence.to(dtype)
    attended = layer.answer(sequence[:, 10:], layer.cache(sequence[:, :10]))
    plain = masked(layer, sequence, Visibility.ISOLATED.matrix(10, 30))[:, 10:]
    error, allowed = ((each.double() - exact).abs().mean() for each in (attended, plain))
    assert error < 1.3 * allowed


@pytest.mark.parametrize(
    ("dtype", "entries"), [(torch.bfloat16, (16, 1)), (torch.float16, (45, 4, 2, 2))]
)
def test_the_score_with_itself_is_not_rounded(dtype: torch.dtype, entries: tuple[int]) -> None:
    """Its square length is one more than a power of two, and has too many digits for the dtype."""
    layer = Attention(8, 1)
    with torch.no_grad():
        layer.qkv.weight.copy_(torch.eye(8).repeat(3, 1))  # queries, keys and values are tokens
        layer.out.weight.copy_(torch.eye(8))
        for bias in (layer.qkv.bias, layer.out.bias):
            bias.zero_()
    query = torch.tensor([[[*entries, *[0] * (8 - len(entries))]]], dtype=dtype)
    other = query + 4 * torch.eye(8, dtype=dtype)[7]  # as near to the query as the query itself
    layer = layer.to(dtype)
    assert layer.answer(query, layer.cache(other))[0, 0, 7] == 2  # half of either
