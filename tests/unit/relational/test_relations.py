import pytest
import torch
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.channels import channels, stack_channels
from unitail.relational.geometry import Geometry
from unitail.relational.operators import NUM_OPERATORS, leave_one_out, solve, stack_kernels
from unitail.relational.relations import relate


def vectors(count: int, seed: int = 0) -> Tensor:
    return torch.randn(2, count, 6, generator=stream(seed), dtype=torch.float64) + 0.5


@pytest.mark.parametrize("origin", [False, True])
def test_shapes_follow_who_is_seen_and_who_is_labelled(origin: bool) -> None:
    frame, own = relate(vectors(9), num_labelled=5, origin=origin)
    other = frame.relate(vectors(4, seed=1))
    count = len(channels(origin=origin))
    assert own.channels.shape == (2, count, 9, 9)
    assert own.operators.shape == (2, NUM_OPERATORS, 9, 5)
    assert other.channels.shape == (2, count, 4, 9)
    assert other.operators.shape == (2, NUM_OPERATORS, 4, 5)


def test_labelled_vectors_hear_the_other_labelled_ones_and_the_rest_hears_all() -> None:
    features = vectors(9)
    frame, own = relate(features, 5, origin=True)
    kernels = stack_kernels(Geometry.of(features, origin=True)[1], 5)
    solutions = solve(kernels[:, :, :5])
    torch.testing.assert_close(own.operators[:, :, :5], leave_one_out(solutions))
    torch.testing.assert_close(own.operators[:, :, 5:], kernels[:, :, 5:] @ solutions)
    torch.testing.assert_close(frame.relate(features[:, 5:]).operators, own.operators[:, :, 5:])


@pytest.mark.parametrize("origin", [False, True])
def test_channels_of_a_seen_vector_are_the_same_either_way_but_that_it_is_itself(
    origin: bool,
) -> None:
    features = vectors(6)
    frame, own = relate(features, 6, origin=origin)
    others = [place for place in range(own.channels.shape[1]) if place != 3]
    again = frame.relate(features).channels
    torch.testing.assert_close(again[:, others], own.channels[:, others])
    assert torch.equal(own.channels[:, 3] > 0, torch.eye(6, dtype=torch.bool).expand(2, 6, 6))
    assert not again[:, 3].any()
    expected = stack_channels(Geometry.of(features, origin=origin)[1], origin=origin)
    assert torch.equal(own.channels, expected)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_equal_vectors_and_few_of_them_give_finite_relations(count: int) -> None:
    features = torch.ones(1, count, 3, dtype=torch.float64)
    frame, own = relate(features, count, origin=True)
    for relations in (own, frame.relate(3 * features)):
        assert relations.channels.isfinite().all()
        assert relations.operators.isfinite().all()


def test_relations_enter_a_precision() -> None:
    relations = relate(vectors(4), 4, origin=True)[1].to(torch.float32)
    assert relations.channels.dtype is relations.operators.dtype is torch.float32
