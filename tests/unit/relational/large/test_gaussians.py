"""Gaussian kernels for any number of rows."""

import pytest
import torch
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.large import gaussians
from unitail.relational.large.gaussians import Gaussians, SparseRidge, num_inducing
from unitail.relational.large.moments import LabelledRows
from unitail.relational.large.neighbours import Neighbourhoods

WAYS = 3
DISTANCE = 8.0


def rows(count: int = 120, dtype: torch.dtype = torch.float64) -> LabelledRows:
    features = torch.randn(count, 4, generator=stream(0), dtype=torch.float64)
    classes = (features[:, :2] > 0).sum(dim=1)
    return LabelledRows(features.to(dtype), classes, WAYS)


def queries(count: int = 40) -> Tensor:
    return torch.randn(count, 4, generator=stream(1), dtype=torch.float64)


def sparse(monkeypatch: pytest.MonkeyPatch, inducing: int, near: int) -> None:
    monkeypatch.setattr(gaussians, "MAX_SOLVED", 0)
    monkeypatch.setattr(gaussians, "MAX_INDUCING", inducing)
    monkeypatch.setattr(gaussians, "NEAR", near)


def read(support: LabelledRows, asked: int = 20, count: int = 3) -> Gaussians:
    return Gaussians.of(support, DISTANCE, asked, count)


def scores(support: LabelledRows, asked: Tensor) -> Tensor:
    return torch.stack([each for _, each in read(support).scores(asked, range(3))])


def test_inducing_points_and_neighbours_come_near_to_all_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact = scores(rows(), queries())
    spread = exact.pow(2).mean(dim=(1, 2)).sqrt()
    away = {}
    for inducing, near in ((60, 30), (60, 0), (1, 30), (100, 20)):
        sparse(monkeypatch, inducing, near)
        error = (scores(rows(), queries()) - exact).pow(2).mean(dim=(1, 2)).sqrt()
        away[inducing, near] = error / spread
    assert (away[60, 30] < 0.15).all()
    assert (away[100, 20] < 0.02).all()
    assert (away[60, 30] < 0.6 * away[60, 0]).all()  # neighbours tell the rest
    assert (away[60, 30] < 0.6 * away[1, 30]).all()  # and the other way round


@pytest.mark.parametrize("inducing", [0, 30])
def test_scores_are_sums_over_labels(inducing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if inducing:
        sparse(monkeypatch, inducing, 20)
    support = rows()
    fitted, labels = read(support), support.centred_labels(120)
    around = fitted.measure(queries())
    for each in fitted.ridges:
        assert isinstance(each, SparseRidge) == bool(inducing)
        expected = each.scores(around)
        torch.testing.assert_close(each.row_weights(around) @ labels, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("inducing", [0, 30])
def test_no_row_hears_its_own_label(inducing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if inducing:
        sparse(monkeypatch, inducing, 20)
    support = rows()
    classes = support.class_indices.clone()
    classes[7] = (classes[7] + 1) % WAYS
    other = LabelledRows(support.features, classes, WAYS)
    before, after = read(support).left_out, read(other).left_out
    torch.testing.assert_close(after[:, 7], before[:, 7], rtol=0, atol=1e-7)
    assert (after - before).abs().max() > 0.01


def test_rows_beyond_the_inducing_points_are_left_out_nearly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact = read(rows(), 40).left_out
    sparse(monkeypatch, 30, 60)
    left_out = read(rows(), 40).left_out
    assert (left_out - exact)[:, 30:].pow(2).mean() < 0.1 * exact[:, 30:].pow(2).mean()


@pytest.mark.parametrize("inducing", [0, 30])
def test_a_far_query_spoils_no_other(inducing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if inducing:
        sparse(monkeypatch, inducing, 20)
    support, asked = rows(dtype=torch.float32), queries(5).float()
    near = scores(support, asked)
    asked[2] += 1e4
    far = scores(support, asked)
    others = [0, 1, 3, 4]
    torch.testing.assert_close(far[:, others], near[:, others], rtol=0, atol=1e-6)
    assert (far[:, 2].abs() < 1e-6).all()  # out of every row's reach


def test_inducing_points_fade_with_the_number_of_rows() -> None:
    assert [num_inducing(count) for count in (4096, 4097, 32_768, 10**6, 10**8)] == [
        0,
        2048,
        1024,
        33,
        16,
    ]


def test_only_the_first_may_be_asked_for() -> None:
    every, first = read(rows()), read(rows(), count=1)
    assert len(every.ridges) == 3 > len(first.ridges) == 1
    torch.testing.assert_close(first.left_out, every.left_out[:1])
    ((_, one), (_, same)) = (*first.scores(queries(), [0]), *every.scores(queries(), [0]))
    torch.testing.assert_close(one, same)
    assert [number for number, _ in every.scores(queries(), [0, 2])] == [0, 2]


def test_neighbours_are_searched_once_for_all_and_not_where_none_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sparse(monkeypatch, 30, 20)
    fitted, searches = read(rows()), []
    nearest = Neighbourhoods.nearest
    monkeypatch.setattr(
        Neighbourhoods, "nearest", lambda *given: (searches.append(0), nearest(*given))[1]
    )
    assert len(list(fitted.scores(queries(), [0, 1, 2]))) == 3
    assert not list(fitted.scores(queries(), []))
    assert len(searches) == 1


@pytest.mark.parametrize("unit", [0.0, float("nan"), float("inf")])
@pytest.mark.parametrize("inducing", [0, 3])
def test_equal_rows_have_no_distances_and_say_how_often_each_class_is_there(
    unit: float, inducing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if inducing:
        sparse(monkeypatch, inducing, 3)
    equal = LabelledRows(torch.ones(6, 2), torch.tensor([0, 0, 0, 0, 1, 1]), 2)
    for _, votes in Gaussians.of(equal, unit, 6, 3).scores(torch.ones(1, 2), range(3)):
        assert torch.isfinite(votes).all()
        assert (votes[:, 0] > votes[:, 1]).all()
        assert (votes.sum(dim=1).abs() < 1e-5).all()
