import pytest
import torch
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.geometry import (
    Centre,
    Directions,
    OriginVectors,
    PreparedVectors,
    Products,
    directions_from,
    safe_reciprocal,
)

SHIFT = 0.3


def vectors(count: int = 5, seed: int = 0) -> Tensor:
    return torch.randn(2, count, 6, generator=stream(seed), dtype=torch.float64)


def places() -> tuple[Tensor, Tensor]:
    """Return where the mean lies from each centre, and a mean direction."""
    to_mean = torch.zeros(len(Centre), 2, 1, 6, dtype=torch.float64)
    to_mean[Centre.SHRUNK] = SHIFT * vectors(1, seed=3)
    to_mean[Centre.ORIGIN :] = vectors(1, seed=3)
    return to_mean, 0.2 * vectors(1, seed=4)


def by_directions(rows: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Take the cosines from the directions themselves, one product for each centre."""
    own, other = (directions_from(tuple(Centre), each, *places()) for each in (rows, seen))
    return own @ other.mT, torch.cdist(rows, seen) ** 2


@pytest.mark.parametrize("far", [1, 1e3])
def test_cosines_are_those_of_directions_from_every_centre(far: float) -> None:
    rows, seen = far * vectors(), far * vectors(7, seed=1)
    cosines = Directions.of(rows, *places()).compare(Directions.of(seen, *places()))
    torch.testing.assert_close(cosines, by_directions(rows, seen), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("centre", [Centre.MEAN, Centre.SHRUNK, Centre.ORIGIN])
def test_a_vector_at_a_centre_has_no_direction_from_there(centre: Centre) -> None:
    rows, (to_mean, direction) = vectors(), places()
    rows[:, 2] = -to_mean[centre, :, 0]
    prepared = Directions.of(rows, to_mean, direction)
    cosines, _ = prepared.compare(prepared)
    assert not cosines[centre, :, 2].any()
    assert not cosines[centre, :, :, 2].any()
    assert cosines.isfinite().all()


@pytest.mark.parametrize("centre", [Centre.MEAN, Centre.SHRUNK, Centre.ORIGIN])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-4), (torch.float64, 1e-9)])
def test_vectors_near_a_centre_keep_their_angles(
    centre: Centre, dtype: torch.dtype, near: float
) -> None:
    """Differences of products would leave nothing of them, and no Gram matrix."""
    rows, (to_mean, direction) = vectors(8), places()
    rows[:, ::2] = near * rows[:, ::2] - to_mean[centre]
    rows, to_mean, direction = (each.to(dtype) for each in (rows, to_mean, direction))
    prepared = PreparedVectors.kind(rows).of(rows, to_mean, direction)
    cosines, _ = prepared.compare(prepared)
    apart = (rows.double() + to_mean[centre].double())[:, ::2]
    units = apart / apart.norm(dim=-1, keepdim=True)
    angles = cosines[centre, :, ::2, ::2].double()
    torch.testing.assert_close(angles, units @ units.mT, rtol=0, atol=2e-2)
    smallest = torch.linalg.eigvalsh(cosines[centre].double()).min()
    assert smallest > -1e-5


def test_directions_that_hardly_differ_keep_their_angles_in_single_precision() -> None:
    """Seen from far away, products of directions are 1 but for rounding."""
    rows, (to_mean, _) = vectors(), places()
    to_mean[Centre.ORIGIN :] *= 3e3
    rays = OriginVectors.of(rows, to_mean)
    centre = rays.directions.mean(dim=1, keepdim=True)
    exact = Directions.of(rows, to_mean, centre)
    single = Products.of(rows.float(), to_mean.float(), centre.float())
    of_all, _ = exact.compare(exact)
    cosines, _ = single.compare(single)
    torch.testing.assert_close(cosines.double(), of_all, rtol=0, atol=2e-3)


@pytest.mark.parametrize("far", [1, 30])
def test_one_product_of_twice_the_precision_is_as_good_as_one_for_each_centre(far: float) -> None:
    rows, (to_mean, direction) = vectors(9), places()
    rows[:, 3] = -to_mean[Centre.SHRUNK, :, 0]
    rows[:, 4] = -to_mean[Centre.ORIGIN, :, 0]
    rows[:, 5] = 0
    to_mean[Centre.ORIGIN :] *= far
    given = [each.float() for each in (rows, to_mean, direction)]
    single = Products.of(*given)
    exact = Directions.of(*(each.double() for each in given))
    for ours, theirs in zip(single.compare(single), exact.compare(exact), strict=True):
        assert ours.dtype is torch.float32
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=3e-6)
    torch.testing.assert_close(single.origin_lengths.double(), exact.origin_lengths)


def test_which_sight_is_for_which_vectors() -> None:
    single = vectors().float()
    assert PreparedVectors.kind(single) is Products
    assert PreparedVectors.kind(single.double()) is Directions
    assert PreparedVectors.kind(single.requires_grad_()) is Directions


def test_gradients_go_through_what_is_compared() -> None:
    """Training an encoder below the model needs them."""
    seen = Directions.of(vectors(3, seed=1), *places())
    rows = vectors(2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: Directions.of(x, *places()).compare(seen), rows)


def test_there_is_nothing_to_measure_in_a_unit_of_roundings() -> None:
    units = torch.tensor([0.0, 1e-15, 0.5], dtype=torch.float64)
    assert safe_reciprocal(units).tolist() == [0, 0, 2]


def test_gradients_of_rows_go_through_single_precision_too() -> None:
    """An encoder may be trained below queries alone: those that are seen have none."""
    seen = [each.float() for each in (vectors(4, seed=1), *places())]
    slopes = []
    for kind in (Products, Directions):
        rows = vectors(3).float().requires_grad_()
        cosines, distances = kind.of(rows, *seen[1:]).compare(kind.of(*seen))
        (cosines * torch.arange(4).view(4, 1, 1, 1)).sum().add(distances.sum()).backward()
        slopes.append(rows.grad)
    torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-4)
