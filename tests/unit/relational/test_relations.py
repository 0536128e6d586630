import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.relations import (
    COSINE_PENALTIES,
    NUM_CHANNELS,
    NUM_OPERATORS,
    ORIGIN_CHANNELS,
    PENALTIES,
    SHRUNK_PENALTIES,
    relate,
)


def vectors(count: int, width: int = 6, seed: int = 0) -> Tensor:
    return torch.randn(2, count, width, generator=stream(seed), dtype=torch.float64)


def kernel(operator: int, rows: Tensor, columns: Tensor, distance: float) -> Tensor:
    """Write the kernel of an operator plainly."""
    if operator < len(SHRUNK_PENALTIES) + len(COSINE_PENALTIES):
        return torch.nn.functional.cosine_similarity(rows[:, None], columns[None], dim=-1)
    return torch.exp(-(rows[:, None] - columns[None]).pow(2).sum(-1) / distance)


def centre(operator: int, support: Tensor, *, origin: bool) -> Tensor:
    """Say from where an operator looks at vectors (t, d)."""
    mean = support.mean(0)
    if not origin or operator >= len(SHRUNK_PENALTIES):
        return mean
    deviation = (support - mean).pow(2).sum() / (len(support) - 1)
    return (1 - deviation / len(support) / mean.pow(2).sum()).clamp_min(0) * mean


def mean_distance(rows: Tensor) -> float:
    pairs = (rows[:, None] - rows[None]).pow(2).sum(-1)
    return float(pairs.sum() / (len(rows) * (len(rows) - 1)))


@pytest.mark.parametrize("origin", [False, True])
@pytest.mark.parametrize("operator", range(NUM_OPERATORS))
def test_an_operator_is_kernel_ridge_regression(operator: int, origin: bool) -> None:
    support, query = vectors(7) + 0.5, vectors(4, seed=1) + 0.5
    values = torch.randn(7, 3, generator=stream(2), dtype=torch.float64)
    frame, _ = relate(support, 7, origin=origin)
    found = frame.of_queries(query).operators[0, operator] @ values

    place = centre(operator, support[0], origin=origin)
    rows, others = support[0] - place, query[0] - place
    distance = mean_distance(rows)
    ridge = KernelRidge(alpha=PENALTIES[operator], kernel="precomputed")
    ridge.fit(kernel(operator, rows, rows, distance), values)
    expected = ridge.predict(kernel(operator, others, rows, distance))
    torch.testing.assert_close(found, torch.from_numpy(expected))


@pytest.mark.parametrize("operator", range(NUM_OPERATORS))
def test_a_labelled_vector_hears_what_the_others_say_without_it(operator: int) -> None:
    support = vectors(6) + 0.5
    values = torch.randn(6, 3, generator=stream(2), dtype=torch.float64)
    found = relate(support, 6, origin=True)[1].operators[0, operator] @ values
    rows = support[0] - centre(operator, support[0], origin=True)
    gram = kernel(operator, rows, rows, mean_distance(rows))
    for out in range(6):
        kept = [index for index in range(6) if index != out]
        ridge = KernelRidge(alpha=PENALTIES[operator], kernel="precomputed")
        ridge.fit(gram[kept][:, kept], values[kept])
        expected = ridge.predict(gram[[out]][:, kept])[0]
        torch.testing.assert_close(found[out], torch.from_numpy(expected))


def test_the_centre_is_the_mean_where_that_is_plain_and_the_origin_where_it_may_be_chance() -> None:
    plain, chance = vectors(8) + 1e4, vectors(8) - vectors(8).mean(1, keepdim=True)
    for features, same in ((plain, 0), (chance, NUM_CHANNELS)):
        channels = relate(features, 8, origin=True)[1].channels
        torch.testing.assert_close(channels[:, -1], channels[:, same], atol=1e-3, rtol=0)


def test_shapes_follow_who_is_seen_and_who_is_labelled() -> None:
    frame, own = relate(vectors(9), num_labelled=5)
    other = frame.of_queries(vectors(4, seed=1))
    assert own.channels.shape == (2, NUM_CHANNELS, 9, 9)
    assert own.operators.shape == (2, NUM_OPERATORS, 9, 5)
    assert other.channels.shape == (2, NUM_CHANNELS, 4, 9)
    assert other.operators.shape == (2, NUM_OPERATORS, 4, 5)


def test_angles_from_the_origin_come_last() -> None:
    support, query = vectors(7) + 3, vectors(4, seed=1) + 3
    channels = relate(support, 7, origin=True)[0].of_queries(query).channels
    assert channels.shape[1] == NUM_CHANNELS + ORIGIN_CHANNELS
    without = relate(support, 7)[0].of_queries(query).channels
    assert torch.equal(channels[:, :NUM_CHANNELS], without)
    cosines = torch.nn.functional.cosine_similarity(query[:, :, None], support[:, None], dim=-1)
    torch.testing.assert_close(channels[:, NUM_CHANNELS], 4 * cosines)


def test_relations_of_a_seen_vector_are_the_same_either_way() -> None:
    features = vectors(6)
    frame, own = relate(features, 6)
    channels = own.channels
    torch.testing.assert_close(frame.of_queries(features).channels[:, :3], channels[:, :3])
    torch.testing.assert_close(channels, channels.mT)
    assert torch.equal(channels[:, 3] > 0, torch.eye(6, dtype=torch.bool).expand(2, 6, 6))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_equal_vectors_and_few_of_them_give_finite_relations(count: int) -> None:
    features = torch.ones(1, count, 3, dtype=torch.float64)
    frame, own = relate(features, count, origin=True)
    for relations in (own, frame.of_queries(3 * features)):
        assert relations.channels.isfinite().all()
        assert relations.operators.isfinite().all()


def test_far_vectors_are_as_far_as_it_gets() -> None:
    frame, _ = relate(vectors(5), 5)
    relations = frame.of_queries(1e30 * vectors(3, seed=1))
    assert relations.channels.isfinite().all()
    assert relations.channels.abs().max() <= 8


@pytest.mark.parametrize("away", [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 0.0])
def test_a_labelled_vector_next_to_the_mean_does_no_harm(away: float) -> None:
    corners = torch.tensor([[[1.0, 0], [-1, 0], [0, 1], [0, -1], [away, 0]]])
    frame, own = relate(corners, 5)
    assert own.operators.isfinite().all()
    assert frame.of_queries(corners).operators.abs().max() < 10


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("count", [2, 3, 5, 20])
def test_equal_angles_have_no_spread(count: int, dtype: torch.dtype, seed: int) -> None:
    """Whatever rounding leaves of it is below what counts."""
    turn = torch.linalg.qr(torch.randn(count, count, generator=stream(seed), dtype=dtype)).Q
    frame, relations = relate(turn.unsqueeze(0), count, origin=True)
    assert frame.origin_cosine is not None
    for spread in (frame.cosine, frame.origin_cosine):
        assert spread.deviation < 16 * torch.finfo(dtype).eps
    for standardised in (1, NUM_CHANNELS + 1):
        assert not relations.channels[:, standardised].any()
