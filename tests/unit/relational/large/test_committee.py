"""Blocks beside a first answer from any number of rows."""

import pytest
import torch
from torch import Tensor

from unitail.framework.episode import Support
from unitail.randomness import stream
from unitail.relational.class_lists import most_promising
from unitail.relational.config import PRESETS
from unitail.relational.large import committee
from unitail.relational.large.committee import Committee, num_members
from unitail.relational.large.first_answer import LargeReading
from unitail.relational.large.moments import LabelledRows
from unitail.relational.model import Relational

WAYS = 4


def rows(count: int = 30, width: int = 6) -> LabelledRows:
    classes = torch.arange(count) % WAYS
    features = torch.randn(count, width, generator=stream(0), dtype=torch.float64)
    return LabelledRows(features + torch.eye(width).double()[classes], classes, WAYS)


def queries(width: int = 6) -> Tensor:
    return torch.randn(5, width, generator=stream(1), dtype=torch.float64)


def network() -> Relational:
    return Relational(PRESETS["tiny"], seed=1).double().requires_grad_(False)


def answers(support: LabelledRows, asked: Tensor) -> Tensor:
    model = network()
    reading = LargeReading.of(support, model.weighing, origin=True)
    members = Committee.of(model, reading, reading.weights.strength)
    assert members is not None
    return members.correct(asked, reading.scores(asked))


def whole(support: LabelledRows, asked: Tensor) -> Tensor:
    task = Support(
        features=support.features[None], class_indices=support.class_indices[None], ways=WAYS
    )
    model = network()
    return model.answer(model.read(task, model.draw(task, stream(0))), asked[None])[0]


@pytest.mark.parametrize("width", [6, 40])
def test_a_committee_of_all_rows_answers_as_the_whole_model(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inverses are solved among coordinates where they are few, else among rows."""
    monkeypatch.setattr("unitail.relational.large.first_answer.MIN_WEIGHT", 0.0)
    expected = whole(rows(width=width), queries(width))
    monkeypatch.setattr(committee, "num_known", lambda _: 1)  # for more classes than these
    said = answers(rows(width=width), queries(width))
    torch.testing.assert_close(said, expected, rtol=0, atol=1e-7)
    monkeypatch.setattr("unitail.relational.large.shortlist.MAX_UNLISTED_WAYS", WAYS - 1)
    assert (answers(rows(width=width), queries(width)) - expected).abs().max() > 1e-5


def test_one_row_beyond_the_committee_changes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    within, more = rows(60), rows(61)
    step = (whole(more, queries()) - whole(within, queries())).abs().max()
    monkeypatch.setattr(committee, "MAX_MEMBERS", 60)
    jump = (answers(more, queries()) - whole(within, queries())).abs().max()
    assert 0 < jump < 3 * step


def test_what_would_not_count_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    model, strength = network(), torch.full((1, 1, 1), 1.0).double()
    reading = LargeReading.of(rows(), model.weighing, origin=True)
    monkeypatch.setattr(committee, "MAX_MEMBERS", 3)
    result = Committee.of(model, reading, strength)
    assert result is not None
    assert float(result.strength) == pytest.approx(0.1)
    assert Committee.of(model, reading, 0.01 * strength) is None
    # A class without a member is corrected as the others are, on average.
    correction = result.correction(queries(), torch.zeros(5, WAYS).double())
    torch.testing.assert_close(correction[:, 3], correction[:, :3].mean(dim=1))


def test_members_fade_with_the_number_of_rows() -> None:
    sizes = (10, 4000, 8000, 20_000, 10**6)
    assert [num_members(count, 10) for count in sizes] == [10, 4000, 2097, 838, 16]
    assert [num_members(count, 1000) for count in sizes] == [10, 4000, 4000, 3355, 16]


def test_contributions_of_members_sum_to_their_effect() -> None:
    model, first = network(), torch.zeros(5, WAYS).double()
    reading = LargeReading.of(rows(), model.weighing, origin=True)
    result = Committee.of(model, reading, torch.full((1, 1, 1), 0.7).double())
    assert result is not None
    classes = torch.tensor([0, 1, 2, 3, 0])
    silence = torch.zeros(5, 30).double()
    gained = result.correction(queries(), first) - result.correction(queries(), first, silence)
    gained = gained.gather(1, classes[:, None]).squeeze(1) - gained.mean(dim=1)
    added = result.contributions(queries(), first, classes)
    torch.testing.assert_close(
        added.sum(dim=1), gained, rtol=0, atol=0.02 * float(gained.abs().max())
    )


def test_classes_with_the_same_rows_are_answered_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Either both are corrected against the others, or neither."""
    monkeypatch.setattr("unitail.relational.large.shortlist.MAX_UNLISTED_WAYS", WAYS)
    monkeypatch.setattr(committee, "num_known", lambda _: 3)
    monkeypatch.setattr(committee, "LISTED_PER_QUERY", 2)
    once = rows(24)
    twins = LabelledRows(
        once.features.repeat(2, 1),
        torch.cat([once.class_indices, once.class_indices + WAYS]),
        2 * WAYS,
    )
    said = answers(twins, queries())
    torch.testing.assert_close(said[:, :WAYS], said[:, WAYS:], rtol=0, atol=1e-9)
    monkeypatch.setattr("unitail.relational.class_lists.TIE", -1)
    said = answers(twins, queries())
    assert (said[:, :WAYS] - said[:, WAYS:]).abs().max() > 1e-4


def test_hopeful_classes_are_corrected_each_all_others_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unitail.relational.large.shortlist.MAX_UNLISTED_WAYS", WAYS - 1)
    monkeypatch.setattr(committee, "LISTED_PER_QUERY", 2)
    model, first = network(), torch.randn(5, WAYS, generator=stream(2), dtype=torch.float64)
    reading = LargeReading.of(rows(), model.weighing, origin=True)
    result = Committee.of(model, reading, torch.full((1, 1, 1), 1.0).double())
    assert result is not None
    hopes = most_promising(first, result.members.nearest(queries(), rows()))
    corrections = result.correction(queries(), first).gather(1, hopes.argsort(dim=1))
    assert torch.equal(corrections[:, 0], corrections[:, 1])
    assert corrections[:, 1:].diff(dim=1).abs().min() > 1e-6
