import pytest
import torch
from torch import Tensor

from unitail.nn.random_projection import (
    OrthonormalReduction,
    Projection,
    ProjectionKind,
    ProjectionLaw,
    WidthReduction,
)
from unitail.randomness import stream

WIDTH = 10


def draw(
    feature_dim: int,
    kind: ProjectionKind = ProjectionKind.PERMUTATION,
    reduction: WidthReduction = WidthReduction.ORTHONORMAL,
    episodes: int = 3,
    seed: int = 0,
) -> Projection:
    law = ProjectionLaw(kind=kind, reduction=reduction, projected_dim=WIDTH)
    return law.draw(episodes, feature_dim, stream(seed))


def features(feature_dim: int, rows: int = 4) -> Tensor:
    return torch.randn(3, rows, feature_dim, generator=stream(1), dtype=torch.float64)


@pytest.mark.parametrize("kind", ProjectionKind)
@pytest.mark.parametrize("reduction", WidthReduction)
@pytest.mark.parametrize("feature_dim", [1, 9, 10, 11, 40])
def test_every_width_is_projected_to_the_same(
    kind: ProjectionKind, reduction: WidthReduction, feature_dim: int
) -> None:
    projection = draw(feature_dim, kind, reduction)
    assert projection.feature_dim == feature_dim
    assert projection(features(feature_dim)).shape == (3, 4, WIDTH)
    assert projection.to("cpu").feature_dim == feature_dim


@pytest.mark.parametrize("kind", ProjectionKind)
@pytest.mark.parametrize("reduction", WidthReduction)
@pytest.mark.parametrize("feature_dim", [9, 10, 40])
def test_some_episodes_keep_their_own_projections(
    kind: ProjectionKind, reduction: WidthReduction, feature_dim: int
) -> None:
    projection, rows = draw(feature_dim, kind, reduction), features(feature_dim)
    last = projection.select(slice(1, 3)).to("cpu")
    assert torch.equal(last(rows[1:]), projection(rows)[1:])


def test_a_permutation_keeps_all_relations() -> None:
    """Inner products of all pairs of rows, exactly what the learned algorithm may depend on."""
    rows = features(7)
    projected = draw(7)(rows)
    torch.testing.assert_close(projected @ projected.mT, rows @ rows.mT)


def test_without_randomness_zeros_are_appended() -> None:
    rows = features(7)
    projected = draw(7, ProjectionKind.NONE)(rows)
    assert torch.equal(projected[..., :7], rows)
    assert (projected[..., 7:] == 0).all()


def test_an_orthonormal_reduction_has_orthonormal_columns() -> None:
    projection = draw(40)
    assert isinstance(projection, OrthonormalReduction)
    columns = projection.matrix
    torch.testing.assert_close(columns.mT @ columns, torch.eye(WIDTH), atol=1e-5, rtol=0)


def test_an_orthonormal_reduction_has_no_favourite_signs() -> None:
    """Householder's factors have: without a correction the first entry is never positive."""
    drawn = [draw(12, seed=seed) for seed in range(200)]
    entries = [each.matrix[0, 0] for each in drawn if isinstance(each, OrthonormalReduction)]
    assert 60 < sum(entry > 0 for entry in entries) < 140


def test_episodes_share_no_orientation_of_an_orthonormal_reduction() -> None:
    rows = features(40)[:1].expand(3, -1, -1)
    projected = draw(40)(rows)
    assert not torch.allclose(projected[0], projected[1])


def test_episodes_share_neither_order_nor_signs_of_an_orthonormal_reduction() -> None:
    """Their rows of Q are compared by what becomes of each coordinate alone."""
    first, second, _ = draw(40)(torch.eye(40).expand(3, -1, -1))
    same = torch.isclose(first.abs().unsqueeze(1), second.abs(), atol=1e-6).all(dim=2)
    assert (same.sum(dim=1) == 1).all()  # the same rows, in another order and with other signs
    assert same.diagonal().sum() < 8  # one on average
    opposite = (first * second[same.int().argmax(dim=1)]).sum(dim=1) < 0
    assert 8 < opposite.sum() < 32


def test_a_subset_takes_each_coordinate_at_most_once() -> None:
    coordinates = torch.arange(40.0).expand(3, 1, 40)
    taken = draw(40, reduction=WidthReduction.SUBSET)(coordinates)[:, 0]
    assert all(len(set(row.tolist())) == WIDTH for row in taken)


@pytest.mark.parametrize("reduction", WidthReduction)
@pytest.mark.parametrize("feature_dim", [WIDTH, 40])
def test_the_scale_of_wide_features_is_kept(reduction: WidthReduction, feature_dim: int) -> None:
    rows = features(feature_dim, rows=2000)
    projected = draw(feature_dim, reduction=reduction)(rows)
    assert projected.pow(2).mean().item() == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("kind", [ProjectionKind.PERMUTATION, ProjectionKind.DENSE])
def test_the_length_of_narrow_features_is_kept(kind: ProjectionKind) -> None:
    rows = features(4, rows=2000)
    ratio = draw(4, kind, episodes=3)(rows).norm() / rows.norm()
    assert ratio.item() == pytest.approx(1, rel=0.35)


@pytest.mark.parametrize("kind", [ProjectionKind.PERMUTATION, ProjectionKind.DENSE])
@pytest.mark.parametrize("feature_dim", [7, 40])
def test_seeds_decide_the_draw(kind: ProjectionKind, feature_dim: int) -> None:
    rows = features(feature_dim)
    one, same, other = (draw(feature_dim, kind, seed=seed)(rows) for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_subsets_depend_on_the_seed_and_the_episode() -> None:
    coordinates = torch.arange(40.0).expand(3, 1, 40)
    one, other = (
        draw(40, reduction=WidthReduction.SUBSET, seed=seed)(coordinates) for seed in (0, 1)
    )
    subsets = {frozenset(row.tolist()) for row in torch.cat([one, other])[:, 0]}
    assert len(subsets) == 6


@pytest.mark.parametrize("kind", [ProjectionKind.PERMUTATION, ProjectionKind.DENSE])
def test_episodes_of_a_batch_have_projections_of_their_own(kind: ProjectionKind) -> None:
    rows = features(7)[:1].expand(3, -1, -1)
    projected = draw(7, kind)(rows)
    assert not torch.equal(projected[0], projected[1])
