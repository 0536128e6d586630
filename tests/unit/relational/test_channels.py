import torch
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.channels import (
    FROM_ORIGIN,
    MAX_CHANNEL,
    SHIFT_INVARIANT,
    channels,
    stack_channels,
)
from unitail.relational.config import RelationalConfig
from unitail.relational.geometry import Centre, Geometry


def vectors(count: int, seed: int = 0) -> Tensor:
    return torch.randn(2, count, 6, generator=stream(seed), dtype=torch.float64)


def test_channels_are_these_and_in_this_order() -> None:
    """Trained weights belong to places in this list."""
    geometry, _ = Geometry.of(vectors(7) + 3, origin=True)
    compared = geometry.compare(vectors(4, seed=1) + 3)
    expected = [
        4 * compared.cosines[Centre.MEAN],
        compared.unusual(Centre.MEAN),
        -2 * compared.distances.clamp_max(4),
        torch.zeros(2, 4, 7, dtype=torch.float64),
        4 * compared.cosines[Centre.ORIGIN],
        compared.unusual(Centre.ORIGIN),
        4 * compared.cosines[Centre.SHRUNK],
    ]
    torch.testing.assert_close(stack_channels(compared, origin=True), torch.stack(expected, dim=1))


def test_one_channel_tells_a_vector_from_all_others() -> None:
    _, own = Geometry.of(vectors(6), origin=True)
    same = stack_channels(own, origin=True)[:, 3]
    assert torch.equal(same, 4 * torch.eye(6, dtype=torch.float64).expand(2, 6, 6))


def test_those_seen_from_the_origin_come_last_and_only_if_it_counts() -> None:
    features = vectors(7) + 3
    with_origin = stack_channels(Geometry.of(features, origin=True)[1], origin=True)
    without = stack_channels(Geometry.of(features, origin=False)[1], origin=False)
    assert torch.equal(with_origin[:, : without.shape[1]], without)


def test_a_config_counts_the_channels_that_there_are() -> None:
    assert RelationalConfig(angles_from_origin=False).relations == len(SHIFT_INVARIANT)
    assert RelationalConfig().relations == len(SHIFT_INVARIANT) + len(FROM_ORIGIN)
    assert RelationalConfig().relations == len(channels(origin=True))


def test_far_vectors_are_as_far_as_it_gets() -> None:
    geometry, _ = Geometry.of(vectors(5), origin=True)
    stacked = stack_channels(geometry.compare(1e30 * vectors(3, seed=1)), origin=True)
    assert stacked.isfinite().all()
    assert stacked.abs().max() <= MAX_CHANNEL
