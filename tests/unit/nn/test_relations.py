import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from torch import Tensor

from unitail.nn.relations import (
    COSINE_PENALTIES,
    DISTANCE_PENALTY,
    NUM_CHANNELS,
    NUM_OPERATORS,
    ORIGIN_CHANNELS,
    Frame,
)
from unitail.randomness import stream


def vectors(count: int, width: int = 6, seed: int = 0) -> Tensor:
    return torch.randn(2, count, width, generator=stream(seed), dtype=torch.float64)


def kernel(operator: int, rows: Tensor, columns: Tensor, distance: float) -> Tensor:
    """Write the kernel of an operator plainly."""
    if operator < len(COSINE_PENALTIES):
        return torch.nn.functional.cosine_similarity(rows[:, None], columns[None], dim=-1)
    return torch.exp(-(rows[:, None] - columns[None]).pow(2).sum(-1) / distance)


def mean_distance(rows: Tensor) -> float:
    pairs = (rows[:, None] - rows[None]).pow(2).sum(-1)
    return float(pairs.sum() / (len(rows) * (len(rows) - 1)))


@pytest.mark.parametrize("operator", range(NUM_OPERATORS))
def test_an_operator_is_kernel_ridge_regression(operator: int) -> None:
    support, query = vectors(7), vectors(4, seed=1)
    values = torch.randn(7, 3, generator=stream(2), dtype=torch.float64)
    found = Frame.of(support, 7).of_queries(query).operators[0, operator] @ values

    rows, others = support[0] - support[0].mean(0), query[0] - support[0].mean(0)
    distance = mean_distance(rows)
    penalty = [*COSINE_PENALTIES, DISTANCE_PENALTY][operator]
    ridge = KernelRidge(alpha=penalty, kernel="precomputed")
    ridge.fit(kernel(operator, rows, rows, distance), values)
    expected = ridge.predict(kernel(operator, others, rows, distance))
    torch.testing.assert_close(found, torch.from_numpy(expected))


@pytest.mark.parametrize("operator", range(NUM_OPERATORS))
def test_a_labelled_vector_hears_what_the_others_say_without_it(operator: int) -> None:
    support = vectors(6)
    values = torch.randn(6, 3, generator=stream(2), dtype=torch.float64)
    found = Frame.of(support, 6).of_itself().operators[0, operator] @ values
    rows = support[0] - support[0].mean(0)
    gram = kernel(operator, rows, rows, mean_distance(rows))
    penalty = [*COSINE_PENALTIES, DISTANCE_PENALTY][operator]
    for out in range(6):
        kept = [index for index in range(6) if index != out]
        ridge = KernelRidge(alpha=penalty, kernel="precomputed")
        ridge.fit(gram[kept][:, kept], values[kept])
        expected = ridge.predict(gram[[out]][:, kept])[0]
        torch.testing.assert_close(found[out], torch.from_numpy(expected))


def test_shapes_follow_who_is_seen_and_who_is_labelled() -> None:
    frame = Frame.of(vectors(9), num_labelled=5)
    own, other = frame.of_itself(), frame.of_queries(vectors(4, seed=1))
    assert own.channels.shape == (2, NUM_CHANNELS, 9, 9)
    assert own.operators.shape == (2, NUM_OPERATORS, 9, 5)
    assert other.channels.shape == (2, NUM_CHANNELS, 4, 9)
    assert other.operators.shape == (2, NUM_OPERATORS, 4, 5)


def test_angles_from_the_origin_come_last() -> None:
    support, query = vectors(7) + 3, vectors(4, seed=1) + 3
    frame = Frame.of(support, 7, origin=True)
    channels = frame.of_queries(query).channels
    assert channels.shape[1] == NUM_CHANNELS + ORIGIN_CHANNELS
    assert torch.equal(channels[:, :NUM_CHANNELS], Frame.of(support, 7).of_queries(query).channels)
    cosines = torch.nn.functional.cosine_similarity(query[:, :, None], support[:, None], dim=-1)
    torch.testing.assert_close(channels[:, NUM_CHANNELS], 4 * cosines)


def test_relations_of_a_seen_vector_are_the_same_either_way() -> None:
    features = vectors(6)
    frame = Frame.of(features, 6)
    channels = frame.of_itself().channels
    torch.testing.assert_close(frame.of_queries(features).channels[:, :3], channels[:, :3])
    torch.testing.assert_close(channels, channels.mT)
    assert torch.equal(channels[:, 3] > 0, torch.eye(6, dtype=torch.bool).expand(2, 6, 6))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_equal_vectors_and_few_of_them_give_finite_relations(count: int) -> None:
    features = torch.ones(1, count, 3, dtype=torch.float64)
    frame = Frame.of(features, count)
    for relations in (frame.of_itself(), frame.of_queries(3 * features)):
        assert relations.channels.isfinite().all()
        assert relations.operators.isfinite().all()


def test_far_vectors_are_as_far_as_it_gets() -> None:
    frame = Frame.of(vectors(5), 5)
    relations = frame.of_queries(1e30 * vectors(3, seed=1))
    assert relations.channels.isfinite().all()
    assert relations.channels.abs().max() <= 8
