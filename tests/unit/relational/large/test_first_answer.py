"""Supports too large for pairs of rows: the same numbers as from pairs."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.config import PRESETS
from unitail.relational.geometry import GeometrySettings
from unitail.relational.large import first_answer
from unitail.relational.large.first_answer import COSINES, STAND_IN_PLACE, LargeReading
from unitail.relational.large.gaussians import GAUSSIANS
from unitail.relational.large.moments import LabelledRows
from unitail.relational.model import Relational
from unitail.relational.regressions import NUM_LOGISTIC, NUM_RIDGES
from unitail.relational.relations import relate

WAYS = 3


def rows(count: int = 40) -> LabelledRows:
    features = torch.randn(count, 6, generator=stream(0), dtype=torch.float64) + 0.5
    classes = torch.arange(count) % WAYS
    return LabelledRows(features + torch.eye(6).double()[classes], classes, WAYS)


def queries() -> Tensor:
    return torch.randn(7, 6, generator=stream(1), dtype=torch.float64) + 0.5


def network() -> Relational:
    model = Relational(PRESETS["tiny"], seed=1).double().requires_grad_(False)
    torch.nn.init.normal_(model.weighing.last.weight, generator=stream(2))
    return model


def read(support: LabelledRows, *, origin: bool = True) -> LargeReading:
    return LargeReading.of(support, network().weighing, origin=origin)


@pytest.mark.parametrize("origin", [True, False])
def test_candidates_and_weights_are_those_of_pairs(
    origin: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_answer, "MIN_WEIGHT", 0.0)
    monkeypatch.setattr("unitail.relational.large.moments.NUMBERS_AT_ONCE", 60)
    support = rows()
    reading = read(support, origin=origin)
    labels = torch.nn.functional.one_hot(support.class_indices, WAYS)[None]
    frame, _ = relate(support.features[None], labels, GeometrySettings(origin=origin))
    weights = network().weighing(frame.evidence, len(support.features) / WAYS, WAYS)
    torch.testing.assert_close(reading.units, frame.units[0], rtol=1e-8, atol=0)
    torch.testing.assert_close(reading.weights.factors, weights.factors, rtol=1e-6, atol=1e-12)
    asked = frame.relate(queries()[None])
    expected = weights.first_answer(asked.candidates)[0]
    torch.testing.assert_close(reading.scores(queries()), expected, rtol=0, atol=1e-7)


def test_every_candidate_has_one_way_to_be_asked() -> None:
    places = [place for place, *_ in (*COSINES, *GAUSSIANS)]
    assert sorted(places) == list(range(NUM_RIDGES))


def test_queries_are_answered_by_themselves() -> None:
    reading = read(rows())
    together = reading.scores(queries())
    alone = torch.cat([reading.scores(query[None]) for query in queries()])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def test_evidence_from_some_rows_is_much_like_that_from_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    support = rows(400)
    whole = read(support).scores(queries()).softmax(dim=-1)
    monkeypatch.setattr(first_answer, "MAX_EVIDENCE_ROWS", 100)
    monkeypatch.setattr(first_answer, "SOME_EVIDENCE_ROWS", 100)
    some = read(support).scores(queries()).softmax(dim=-1)
    assert (whole - some).abs().max() < 0.1
    assert torch.equal(some, read(support).scores(queries()).softmax(dim=-1))


def test_the_order_of_rows_changes_nothing() -> None:
    support = rows()
    order = torch.randperm(40, generator=stream(4))
    other = LabelledRows(support.features[order], support.class_indices[order], WAYS)
    torch.testing.assert_close(
        read(support).scores(queries()), read(other).scores(queries()), rtol=0, atol=1e-8
    )


def test_many_classes_with_few_labels_have_fewer_regressions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = read(rows())
    monkeypatch.setattr(first_answer, "SPARSE_WAYS", WAYS - 1)
    monkeypatch.setattr(first_answer, "SPARSE_SHOTS", 100)
    monkeypatch.setattr(first_answer, "SPARSE_ROWS", 100)
    many = read(rows())
    assert (len(many.regressions), len(many.gaussians.ridges)) == (0, 1)
    assert torch.equal(many.ridges, usual.ridges)
    others = [place for place, *_ in GAUSSIANS[1:]]
    missing = [*range(NUM_LOGISTIC), *(NUM_LOGISTIC + place for place in others)]
    assert usual.weights.factors[0, missing].any()
    assert not many.weights.factors[0, missing].any()
    # The evidence of others stands for that of those that are not there.
    assert torch.equal(many.units[0], many.units[NUM_LOGISTIC + STAND_IN_PLACE])
    assert torch.equal(many.units[missing[-1]], many.units[NUM_LOGISTIC + GAUSSIANS[0][0]])
    torch.testing.assert_close(many.scores(queries()), usual.scores(queries()), rtol=0, atol=1.5)


def test_narrow_rows_keep_all_regressions_unless_they_cost_too_much() -> None:
    """On 100 normal classes in 20 columns fewer regressions lose 7 points; on vectors, nothing."""
    assert first_answer.is_sparse(2000, 1000, 384)
    assert not first_answer.is_sparse(202, 101, 20)
    assert not first_answer.is_sparse(200, 100, 384)
    assert not first_answer.is_sparse(1600, 200, 384)
    assert first_answer.is_sparse(5000, 1000, 384)  # it would take longer than all the rest
    assert first_answer.has_logistic(202, 101, 20)
    assert not first_answer.has_logistic(2000, 1000, 384)


def test_what_is_missing_leaves_its_weight_to_the_others() -> None:
    factors = torch.tensor([[4.0, 2.0, 1e-5, 2.0]])
    kept = first_answer._without_light(factors, [0])
    torch.testing.assert_close(kept, torch.tensor([[0, 4.0, 0, 4.0]]), rtol=1e-4, atol=0)
    alone = first_answer._without_light(torch.tensor([[1.0, 1e-9]]), [0])
    torch.testing.assert_close(alone, torch.tensor([[0, 1.0]]))


def test_too_many_rows_and_classes_have_no_logistic_regression(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_answer, "MAX_SOFTMAX", 100)
    reading = read(rows())
    assert (len(reading.regressions), len(reading.gaussians.ridges)) == (0, len(GAUSSIANS))
    assert not reading.weights.factors[0, :NUM_LOGISTIC].any()
    assert reading.scores(queries()).isfinite().all()


def test_rough_scores_are_those_of_the_candidate_on_cosines_of_most_weight() -> None:
    reading = read(rows())
    factors = torch.zeros_like(reading.weights.factors)
    first, second = NUM_LOGISTIC + COSINES[0][0], NUM_LOGISTIC + COSINES[2][0]
    gaussian = NUM_LOGISTIC + GAUSSIANS[0][0]
    factors[0, [first, second, gaussian]] = torch.tensor([1.0, 2.0, 9.0]).double()
    chosen = replace(reading, weights=replace(reading.weights, factors=factors))
    factors = torch.zeros_like(factors)
    factors[0, second] = 2.0
    alone = replace(reading, weights=replace(reading.weights, factors=factors))
    assert torch.equal(chosen.scores(queries(), roughly=True), alone.scores(queries()))
    assert not torch.equal(chosen.scores(queries()), alone.scores(queries()))
