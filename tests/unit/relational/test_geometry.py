import pytest
import torch
from torch import Tensor

from unitail.randomness import stream
from unitail.relational import geometry as module
from unitail.relational.geometry import (
    MAX_DEVIATIONS,
    MIN_LIMITED_WIDTH,
    Centre,
    Geometry,
    GeometrySettings,
    coordinate_limit,
)


def vectors(count: int, width: int = 6, seed: int = 0) -> Tensor:
    return torch.randn(2, count, width, generator=stream(seed), dtype=torch.float64)


def james_stein(rows: Tensor) -> Tensor:
    """Shrink the mean of vectors (t, d) towards the origin."""
    mean = rows.mean(0)
    deviation = (rows - mean).pow(2).sum() / (len(rows) - 1)
    return (1 - deviation / len(rows) / mean.pow(2).sum()).clamp_min(0) * mean


def off_diagonal(values: Tensor) -> Tensor:
    return values[~torch.eye(len(values), dtype=torch.bool)]


@pytest.mark.parametrize("centre", Centre)
def test_cosines_are_seen_from_their_centre(centre: Centre) -> None:
    support, query = vectors(7) + 0.5, vectors(4, seed=1) + 0.5
    geometry, _ = Geometry.of(support)
    for episode in range(2):
        rows, asked = support[episode], query[episode]
        if centre is Centre.DIRECTION:  # vectors of length 1 have a centre of their own
            rows, asked = (each / each.norm(dim=1, keepdim=True) for each in (rows, asked))
        place = {
            Centre.MEAN: rows.mean(0),
            Centre.SHRUNK: james_stein(rows),
            Centre.ORIGIN: torch.zeros(6, dtype=torch.float64),
            Centre.DIRECTION: james_stein(rows),
        }[centre]
        expected = torch.nn.functional.cosine_similarity(
            (asked - place)[:, None], (rows - place)[None], dim=-1
        )
        torch.testing.assert_close(geometry.compare(query).cosines[centre, episode], expected)


def test_chunks_of_vectors_are_compared_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    geometry, _ = Geometry.of(vectors(7, 40), GeometrySettings(limit=2.5))
    whole = geometry.compare(vectors(8, 40, seed=1))
    monkeypatch.setattr(module, "COORDINATES_AT_ONCE", 3 * 2 * 40)
    monkeypatch.setattr(module, "MIN_CHUNK_ROWS", 1)
    chunks = geometry.compare(vectors(8, 40, seed=1))
    torch.testing.assert_close(chunks.cosines, whole.cosines)
    torch.testing.assert_close(chunks.distances, whole.distances)


def test_some_of_the_seen_vectors_compare_as_all_of_them() -> None:
    geometry, own = Geometry.of(vectors(7))
    some = geometry.compare_seen_rows(slice(2, 5))
    torch.testing.assert_close(some.cosines, own.cosines[:, :, 2:5])
    torch.testing.assert_close(some.distances, own.distances[:, 2:5])
    assert torch.equal(some.same, own.same[2:5])


def test_distances_are_in_units_of_their_mean() -> None:
    support, query = vectors(7) + 0.5, vectors(4, seed=1)
    geometry, own = Geometry.of(support)
    for episode in range(2):
        unit = off_diagonal(torch.cdist(support[episode], support[episode]) ** 2).mean()
        for rows, compared in ((support, own), (query, geometry.compare(query))):
            expected = torch.cdist(rows[episode], support[episode]) ** 2 / unit
            torch.testing.assert_close(compared.distances[episode], expected)


@pytest.mark.parametrize("centre", Centre)
def test_unusual_cosines_have_mean_zero_and_deviation_one(centre: Centre) -> None:
    _, own = Geometry.of(vectors(9) + 0.5)
    for values in own.standardised(centre):
        usual = off_diagonal(values)
        torch.testing.assert_close(usual.mean(), usual.new_zeros(()))
        torch.testing.assert_close(usual.pow(2).mean(), usual.new_ones(()))


def test_all_centres_are_the_mean_where_the_origin_does_not_count() -> None:
    geometry, own = Geometry.of(vectors(5) + 3, GeometrySettings(origin=False))
    for compared in (own, geometry.compare(vectors(3, seed=1))):
        for centre in Centre:
            of_mean = compared.cosines[Centre.MEAN]
            torch.testing.assert_close(compared.cosines[centre], of_mean, rtol=0, atol=1e-14)


def test_the_centre_is_the_mean_where_that_is_plain_and_the_origin_where_it_may_be_chance() -> None:
    plain, chance = vectors(8) + 1e4, vectors(8) - vectors(8).mean(1, keepdim=True)
    for features, same in ((plain, Centre.MEAN), (chance, Centre.ORIGIN)):
        cosines = Geometry.of(features)[1].cosines
        torch.testing.assert_close(cosines[Centre.SHRUNK], cosines[same], atol=3e-4, rtol=0)


def test_a_seen_vector_compares_the_same_either_way_but_that_it_is_itself() -> None:
    features = vectors(6)
    geometry, own = Geometry.of(features)
    again = geometry.compare(features)
    torch.testing.assert_close(again.cosines, own.cosines)
    torch.testing.assert_close(again.distances, own.distances)
    torch.testing.assert_close(own.cosines, own.cosines.mT)
    assert torch.equal(own.same, torch.eye(6, dtype=torch.float64))
    assert not again.same.any()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_equal_vectors_and_few_of_them_compare_finitely(count: int) -> None:
    features = torch.ones(1, count, 3, dtype=torch.float64)
    geometry, own = Geometry.of(features)
    for compared in (own, geometry.compare(3 * features)):
        assert compared.cosines.isfinite().all()
        assert compared.distances.isfinite().all()
        assert all(compared.standardised(centre).isfinite().all() for centre in Centre)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("count", [2, 3, 5, 20])
def test_equal_angles_have_no_spread(count: int, dtype: torch.dtype, seed: int) -> None:
    """Whatever rounding leaves of it is below what counts."""
    turn = torch.linalg.qr(torch.randn(count, count, generator=stream(seed), dtype=dtype)).Q
    geometry, own = Geometry.of(turn.unsqueeze(0))
    for centre in (Centre.MEAN, Centre.ORIGIN):
        assert geometry.cosine_deviation[centre] < 16 * torch.finfo(dtype).eps
        assert not own.standardised(centre).any()


def test_a_cosine_is_only_so_unusual() -> None:
    """Five vectors at nearly the same angles to each other, and one that is with one of them."""
    features = torch.eye(5, dtype=torch.float64) + 1e-3 * vectors(5, 5)
    geometry, _ = Geometry.of(features)
    assert geometry.compare(features).standardised(Centre.MEAN).max() == MAX_DEVIATIONS


def limited(rows: Tensor, size: float, limit: float) -> Tensor:
    """Let coordinates count up to a limit, in units of their size."""
    times = rows / (limit * size)
    return rows / (1 + times**4) ** 0.25


def test_coordinates_count_up_to_a_limit_that_the_seen_ones_decide() -> None:
    support, query = vectors(7, width=40), 5 * vectors(4, width=40, seed=1)
    support[:, :, 0] *= 20  # one coordinate is far larger than the rest
    support[:, :, 1] = 1e-12  # and zeros do not count, but for rounding
    geometry, own = Geometry.of(support, GeometrySettings(limit=2.5))
    for episode in range(2):
        rows, asked = support[episode], query[episode]
        size = float(rows[rows.abs() > 1e-6].pow(2).mean().sqrt())
        rows, asked = (limited(each, size, 2.5) for each in (rows, asked))
        expected = torch.nn.functional.cosine_similarity(asked[:, None], rows[None], dim=-1)
        cosines = geometry.compare(query).cosines[Centre.ORIGIN, episode]
        torch.testing.assert_close(cosines, expected)
        expected = torch.nn.functional.cosine_similarity(rows[:, None], rows[None], dim=-1)
        torch.testing.assert_close(own.cosines[Centre.ORIGIN, episode], expected)


def test_a_limit_far_away_changes_nothing() -> None:
    plain, _ = Geometry.of(vectors(7, width=40))
    wide, _ = Geometry.of(vectors(7, width=40), GeometrySettings(limit=1e6))
    query = vectors(4, width=40, seed=1)
    torch.testing.assert_close(wide.compare(query).cosines, plain.compare(query).cosines)


@pytest.mark.parametrize("factor", [1e-150, 1e150])
def test_coordinates_of_any_size_have_a_limit(factor: float) -> None:
    rows = vectors(5, width=40)
    cosines = Geometry.of(factor * rows, GeometrySettings(limit=2.5))[1].cosines
    torch.testing.assert_close(cosines, Geometry.of(rows, GeometrySettings(limit=2.5))[1].cosines)


def test_where_all_is_zero_there_is_no_limit() -> None:
    geometry, _ = Geometry.of(
        torch.zeros(1, 3, 40, dtype=torch.float64), GeometrySettings(limit=2.5)
    )
    assert geometry.compare(vectors(2, width=40)[:1]).cosines.isfinite().all()


def test_a_limit_is_the_same_in_chunks_of_rows() -> None:
    rows = vectors(9, width=40)
    rows[:, :2] *= 100
    whole = coordinate_limit([rows], 2.5)
    assert whole is not None
    torch.testing.assert_close(coordinate_limit([rows[:, :2], rows[:, 2:]], 2.5), whole)


def test_few_coordinates_have_no_limit() -> None:
    """A column with an offset far beyond the others keeps what it says."""
    rows = vectors(7, width=MIN_LIMITED_WIDTH - 1)
    rows[..., 0] += 1000
    cosines = [Geometry.of(rows, GeometrySettings(limit=limit))[1].cosines for limit in (None, 2.5)]
    assert torch.equal(*cosines)


@pytest.mark.parametrize(("limit", "expected"), [(0.0, 1e200), (2.0, 2.0)])
def test_a_coordinate_far_beyond_the_limit_counts_as_the_limit(
    limit: float, expected: float
) -> None:
    features = torch.full((1, 1, 32), 1e200, dtype=torch.float64)
    ended = module.limited(features, torch.full((1, 1, 1), limit, dtype=torch.float64))
    torch.testing.assert_close(ended, torch.full_like(features, expected))
