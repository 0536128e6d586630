import pytest
import torch
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.config import RelationalConfig
from unitail.relational.geometry import Centre, Geometry, GeometrySettings
from unitail.relational.regressions import (
    NUM_CANDIDATES,
    NUM_OPERATORS,
    fit_logistic,
    leave_one_out,
    solve,
    stack_kernels,
)
from unitail.relational.relations import (
    FROM_ORIGIN,
    MAX_CHANNEL,
    MAX_SCORE,
    SHIFT_INVARIANT,
    channels,
    relate,
    stack_channels,
)


def vectors(count: int, seed: int = 0) -> Tensor:
    return torch.randn(2, count, 6, generator=stream(seed), dtype=torch.float64)


def test_channels_are_these_and_in_this_order() -> None:
    """Trained weights belong to places in this list."""
    geometry, _ = Geometry.of(vectors(7) + 3)
    compared = geometry.compare(vectors(4, seed=1) + 3)
    expected = [
        4 * compared.cosines[Centre.MEAN],
        compared.standardised(Centre.MEAN),
        -2 * compared.distances.clamp_max(4),
        torch.zeros(2, 4, 7, dtype=torch.float64),
        4 * compared.cosines[Centre.ORIGIN],
        compared.standardised(Centre.ORIGIN),
        4 * compared.cosines[Centre.SHRUNK],
    ]
    torch.testing.assert_close(stack_channels(compared), torch.stack(expected, dim=1))


def test_one_channel_tells_a_vector_from_all_others() -> None:
    _, own = Geometry.of(vectors(6))
    same = stack_channels(own)[:, 3]
    assert torch.equal(same, 4 * torch.eye(6, dtype=torch.float64).expand(2, 6, 6))


def test_those_seen_from_the_origin_come_last_and_only_if_it_counts() -> None:
    features = vectors(7) + 3
    with_origin = stack_channels(Geometry.of(features)[1])
    without = stack_channels(Geometry.of(features, GeometrySettings(origin=False))[1])
    assert torch.equal(with_origin[:, : without.shape[1]], without)


def test_a_config_counts_the_channels_that_there_are() -> None:
    assert RelationalConfig(angles_from_origin=False).relations == len(SHIFT_INVARIANT)
    assert RelationalConfig().relations == len(SHIFT_INVARIANT) + len(FROM_ORIGIN)
    assert RelationalConfig().relations == len(channels(origin=True))


def test_far_vectors_are_as_far_as_it_gets() -> None:
    geometry, _ = Geometry.of(vectors(5))
    stacked = stack_channels(geometry.compare(1e30 * vectors(3, seed=1)))
    assert stacked.isfinite().all()
    assert stacked.abs().max() <= MAX_CHANNEL


def labels(count: int, ways: int = 3) -> Tensor:
    """Return labels of two episodes, in orders of their own."""
    classes = torch.stack([torch.arange(count) % ways, (torch.arange(count) + 1) % ways])
    return torch.nn.functional.one_hot(classes, ways).double()


def shifted_vectors(count: int, seed: int = 0) -> Tensor:
    return torch.randn(2, count, 6, generator=stream(seed), dtype=torch.float64) + 0.5


@pytest.mark.parametrize("origin", [False, True])
def test_shapes_follow_who_is_seen_and_who_is_labelled(origin: bool) -> None:
    frame, own = relate(shifted_vectors(9), labels(5), GeometrySettings(origin=origin))
    other = frame.relate(shifted_vectors(4, seed=1))
    count = len(channels(origin=origin))
    assert own.channels.shape == (2, count, 9, 9)
    assert own.operators.shape == (2, NUM_OPERATORS, 9, 5)
    assert other.channels.shape == (2, count, 4, 9)
    assert other.operators.shape == (2, NUM_OPERATORS, 4, 5)
    assert own.candidates.shape == (2, NUM_CANDIDATES, 9, 3)
    assert other.candidates.shape == (2, NUM_CANDIDATES, 4, 3)


def test_labelled_vectors_hear_the_other_labelled_ones_and_the_rest_hears_all() -> None:
    features = shifted_vectors(9)
    frame, own = relate(features, labels(5))
    kernels = stack_kernels(Geometry.of(features)[1], 5)
    kernels, solutions = (each[:, :NUM_OPERATORS] for each in (kernels, solve(kernels[:, :, :5])))
    torch.testing.assert_close(own.operators[:, :, :5], leave_one_out(solutions))
    torch.testing.assert_close(own.operators[:, :, 5:], kernels[:, :, 5:] @ solutions)
    torch.testing.assert_close(frame.relate(features[:, 5:]).operators, own.operators[:, :, 5:])


@pytest.mark.parametrize("origin", [False, True])
def test_channels_of_a_seen_vector_are_the_same_either_way_but_that_it_is_itself(
    origin: bool,
) -> None:
    features = shifted_vectors(6)
    frame, own = relate(features, labels(6), GeometrySettings(origin=origin))
    others = [place for place in range(own.channels.shape[1]) if place != 3]
    again = frame.relate(features).channels
    torch.testing.assert_close(again[:, others], own.channels[:, others])
    assert torch.equal(own.channels[:, 3] > 0, torch.eye(6, dtype=torch.bool).expand(2, 6, 6))
    assert not again[:, 3].any()
    expected = stack_channels(Geometry.of(features, GeometrySettings(origin=origin))[1])
    assert torch.equal(own.channels, expected)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_equal_vectors_and_few_of_them_give_finite_relations(count: int) -> None:
    features = torch.ones(1, count, 3, dtype=torch.float64)
    frame, own = relate(features, labels(count)[:1])
    for relations in (own, frame.relate(3 * features)):
        assert relations.channels.isfinite().all()
        assert relations.operators.isfinite().all()
        assert relations.candidates.isfinite().all()


def test_relations_enter_a_precision() -> None:
    relations = relate(shifted_vectors(4), labels(4))[1].to(torch.float32)
    tensors = (relations.channels, relations.operators, relations.candidates)
    assert all(tensor.dtype is torch.float32 for tensor in tensors)


def test_candidates_are_logistic_regressions_then_ridge_regressions_of_labels() -> None:
    features = shifted_vectors(9)
    frame, own = relate(features, labels(6))
    compared = Geometry.of(features)[1]
    gram, kernels = compared.cosines[Centre.DIRECTION], stack_kernels(compared, 6)
    fitted, solutions = fit_logistic(gram[:, :6, :6], labels(6)), solve(kernels[:, :, :6])
    carried = torch.cat([leave_one_out(solutions), kernels[:, :, 6:] @ solutions], dim=2)
    logistic = torch.cat([fitted.left_out, fitted.scores(gram[:, 6:, :6])], dim=2)
    expected = torch.cat([logistic, carried @ (labels(6) - 1 / 3).unsqueeze(1)], dim=1)
    torch.testing.assert_close(own.candidates * frame.units, expected)
    again = frame.relate(features[:, 6:]).candidates
    torch.testing.assert_close(again, own.candidates[:, :, 6:])


def test_candidates_are_in_units_of_what_they_say_of_labelled_rows() -> None:
    _, own = relate(shifted_vectors(9), labels(6))
    sizes = own.candidates[:, :, :6].pow(2).mean(dim=(2, 3)).sqrt()
    torch.testing.assert_close(sizes[:, :7], torch.ones_like(sizes[:, :7]))
    assert (sizes < 1 + 1e-9).all()  # those of sharp kernels may say next to nothing


def test_a_row_beside_a_labelled_one_that_is_far_from_all_others_has_a_score_that_counts() -> None:
    features = 100 * torch.eye(6, dtype=torch.float64).expand(2, 6, 6)
    frame, _ = relate(features, labels(6))
    candidates = frame.relate(features + 1e-3).candidates
    assert candidates.abs().max() <= MAX_SCORE * 3**0.5
    assert (candidates[:, -1].argmax(dim=-1) == labels(6).argmax(dim=-1)).all()
