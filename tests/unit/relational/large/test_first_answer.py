"""Supports too large for pairs of rows: the same numbers as from pairs."""

import pytest
import torch
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.config import PRESETS
from unitail.relational.large import first_answer
from unitail.relational.large.first_answer import COSINES, LargeReading
from unitail.relational.large.gaussians import GAUSSIANS
from unitail.relational.large.moments import LabelledRows
from unitail.relational.model import Relational
from unitail.relational.regressions import NUM_RIDGES
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
    monkeypatch.setattr("unitail.relational.large.moments.CHUNK", 60)
    support = rows()
    reading = read(support, origin=origin)
    labels = torch.nn.functional.one_hot(support.class_indices, WAYS)[None]
    frame, _ = relate(support.features[None], labels, origin=origin)
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
    monkeypatch.setattr(first_answer, "MAX_ASKED", 100)
    monkeypatch.setattr(first_answer, "SOME_ASKED", 100)
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


def test_many_classes_have_one_logistic_regression_of_few_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = read(rows())
    monkeypatch.setattr(first_answer, "FEW_WAYS", WAYS - 1)
    monkeypatch.setattr(first_answer, "FEW_SHOTS", 100)
    many = read(rows())
    assert torch.equal(many.regressions[0], many.regressions[2])
    assert not torch.equal(usual.regressions[0], usual.regressions[2])
    torch.testing.assert_close(many.regressions[2], usual.regressions[2], rtol=0, atol=0.3)
    assert (many.scores(queries()).argmax(1) == usual.scores(queries()).argmax(1)).all()


def test_too_many_rows_and_classes_have_no_logistic_regression(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_answer, "MAX_SOFTMAX", 100)
    reading = read(rows())
    assert not reading.regressions.any()
    assert not reading.weights.factors[0, :3].any()
    assert reading.scores(queries()).isfinite().all()
