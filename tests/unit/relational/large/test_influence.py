"""What rows add to answers that were made without pairs: the same as with them."""

import pytest
import torch

from unitail.framework.episode import Support
from unitail.learners.large_hypothesis import read_large
from unitail.randomness import stream
from unitail.relational.config import PRESETS
from unitail.relational.large import first_answer, gaussians
from unitail.relational.large.first_answer import LargeReading
from unitail.relational.large.influence import first_answer_contributions
from unitail.relational.large.moments import LabelledRows
from unitail.relational.model import Relational

WAYS = 3
CLASSES = torch.tensor([[0, 1, 2, 0, 1]])


def task() -> Support:
    classes = torch.arange(45) % WAYS
    features = torch.randn(45, 6, generator=stream(0), dtype=torch.float64)
    features += torch.eye(6).double()[classes]
    return Support(features=features[None], class_indices=classes[None], ways=WAYS)


def network(favour: slice = slice(None)) -> Relational:
    """Give weight to some candidates only."""
    model = Relational(PRESETS["tiny"], seed=1).double().requires_grad_(False)
    model.weighing.favour.fill_(-60.0)
    model.weighing.favour[favour] = 0.0
    return model


def test_they_are_those_of_pairs() -> None:
    model, support = network(), task()
    queries = torch.randn(1, 5, 6, generator=stream(1), dtype=torch.float64)
    read = model.read(support, model.draw(support, stream(0)))
    expected = model.contributions(read, queries, CLASSES)
    order = torch.randperm(45, generator=stream(3))
    values = read_large(model, support, order).contributions(queries, CLASSES).double()
    assert (values - expected).abs().max() < 0.02 * expected.abs().max()


@pytest.mark.parametrize("favour", [slice(3, 7), slice(7, 8), slice(8, 10), slice(10, 12)])
@pytest.mark.parametrize("inducing", [0, 20])
def test_ridge_regressions_are_sums_over_rows(
    favour: slice, inducing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if inducing:
        monkeypatch.setattr(gaussians, "MAX_SOLVED", 0)
        monkeypatch.setattr(gaussians, "MAX_INDUCING", inducing)
    support = task()
    rows = LabelledRows(support.features[0], support.class_indices[0], WAYS)
    reading = LargeReading.of(rows, network(favour).weighing, origin=True)
    queries = torch.randn(5, 6, generator=stream(1), dtype=torch.float64)
    parts = first_answer_contributions(reading, queries, CLASSES[0])
    scores = reading.scores(queries).gather(1, CLASSES[0][:, None]).squeeze(1)
    torch.testing.assert_close(parts.sum(dim=1), scores, rtol=0, atol=1e-6)


@pytest.mark.parametrize("limit", ["SPARSE_WAYS", "MAX_SOFTMAX"])
def test_fewer_regressions_are_sums_over_rows(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_answer, "SPARSE_SHOTS", 100)
    monkeypatch.setattr(first_answer, "SPARSE_ROWS", 100)
    monkeypatch.setattr(first_answer, limit, 2)
    rows = LabelledRows(task().features[0], task().class_indices[0], WAYS)
    reading = LargeReading.of(rows, network().weighing, origin=True)
    queries = torch.randn(5, 6, generator=stream(1), dtype=torch.float64)
    parts = first_answer_contributions(reading, queries, CLASSES[0])
    scores = reading.scores(queries).gather(1, CLASSES[0][:, None]).squeeze(1)
    torch.testing.assert_close(parts.sum(dim=1), scores, rtol=0, atol=1e-9)


def test_rows_are_walked_over_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = LabelledRows(task().features[0], task().class_indices[0], WAYS)
    queries = torch.randn(5, 6, generator=stream(1), dtype=torch.float64)
    reading = LargeReading.of(rows, network().weighing, origin=True)
    whole = first_answer_contributions(reading, queries, CLASSES[0])
    monkeypatch.setattr("unitail.relational.large.moments.NUMBERS_AT_ONCE", 60)
    torch.testing.assert_close(first_answer_contributions(reading, queries, CLASSES[0]), whole)
