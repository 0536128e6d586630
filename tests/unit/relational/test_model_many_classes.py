"""Where classes are many: lists of them for labelled rows, and one logistic regression."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from helpers.builders import random_support
from unitail.framework.episode import Support
from unitail.nn.episode_model import NoDraw, Visibility
from unitail.randomness import stream
from unitail.relational import model as model_module
from unitail.relational import regressions
from unitail.relational.block import EVERY_CLASS
from unitail.relational.config import PRESETS
from unitail.relational.model import MIN_LISTED_SHOTS, ReadRelations, Relational
from unitail.relational.regressions import NUM_LOGISTIC, are_many

WAYS, SHOTS = 9, 4
EXACT = {"rtol": 0, "atol": 1e-9}


@pytest.fixture(autouse=True)
def _many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regressions, "MANY_WAYS", WAYS - 1)
    monkeypatch.setattr(regressions, "MANY_STATES", 1)
    monkeypatch.setattr(model_module, "LISTED", 4)


def network() -> Relational:
    made = Relational(PRESETS["tiny"], seed=1).double().requires_grad_(False)
    for weight in made.parameters():
        if not weight.any():
            torch.nn.init.normal_(weight, std=0.3, generator=stream(4))
    return made


def support() -> Support:
    made = random_support((SHOTS,) * WAYS, episodes=2)
    return replace(made, features=made.features.double())


def queries() -> Tensor:
    return torch.randn(2, 5, support().features.shape[2], generator=stream(3)).double()


def read(given: Support) -> ReadRelations:
    return network().read(given, NoDraw(), Visibility.ISOLATED)


def answers(given: Support) -> Tensor:
    return network().answer(read(given), queries())


def test_lists_of_all_but_one_class_leave_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    some = answers(support())
    monkeypatch.setattr(model_module, "LISTED", WAYS - 1)
    listed = answers(support())
    monkeypatch.setattr(model_module.Seen, "list_classes", lambda *_: EVERY_CLASS)
    whole = answers(support())
    torch.testing.assert_close(listed, whole, **EXACT)
    assert (some - whole).abs().max() > 1e-6, "short lists are lists"


def test_few_labels_have_no_lists() -> None:
    """What they say of each other is too little to choose by."""
    few = random_support((MIN_LISTED_SHOTS - 1,) * WAYS, episodes=1)
    few = replace(few, features=few.features.double())
    for given, listed in ((few, False), (support(), True)):
        seen, relations = network()._relate(given, given.features)
        assert (seen.list_classes(relations) is not EVERY_CLASS) == listed


def test_names_of_classes_and_the_order_of_rows_change_nothing() -> None:
    given, order = support(), torch.randperm(SHOTS * WAYS, generator=stream(5))
    names = torch.randperm(WAYS, generator=stream(6))
    other = replace(
        given,
        features=given.features[:, order],
        class_indices=names[given.class_indices[:, order]],
    )
    torch.testing.assert_close(answers(other)[..., names], answers(given), **EXACT)


def test_one_logistic_regression_stands_for_all_and_has_their_weight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = read(support()).seen
    assert seen is not None
    assert seen.frame.regressions.penalties == regressions.LOGISTIC_PENALTIES[-1:]
    assert not seen.weights.factors[:, : NUM_LOGISTIC - 1].any()
    assert (seen.weights.factors[:, NUM_LOGISTIC - 1 :] > 0).all()
    assert torch.equal(seen.frame.units[:, 0], seen.frame.units[:, NUM_LOGISTIC - 1])
    monkeypatch.setattr(regressions, "MANY_STATES", 10**9)
    all_of_them = read(support()).seen
    assert all_of_them is not None
    assert all_of_them.frame.regressions.penalties == regressions.LOGISTIC_PENALTIES
    assert (all_of_them.weights.factors > 0).all()
    ours, theirs = (each.frame.regressions.coefficients[:, -1] for each in (seen, all_of_them))
    torch.testing.assert_close(ours, theirs, **EXACT)


def test_what_rows_add_to_an_answer_is_the_answer() -> None:
    """Without corrections they add up to it, though one penalty stands for all that are missing."""
    classes = torch.arange(5).repeat(2, 1)
    model = network()
    torch.nn.init.zeros_(model.head.weight)
    given = model.read(support(), NoDraw())
    values = model.contributions(given, queries(), classes)
    scores = model.answer(given, queries())
    above = scores.gather(2, classes.unsqueeze(2)).squeeze(2) - scores.mean(dim=2)
    torch.testing.assert_close(values.sum(dim=2), above, **EXACT)


def test_how_near_a_row_comes_to_a_class_leaves_itself_out() -> None:
    given = support()
    _, relations = network()._relate(given, given.features)
    near, closeness = relations.nearest(given.class_indices, WAYS), relations.channels[:, 2]
    for row in range(SHOTS * WAYS):
        for number in range(WAYS):
            those = (given.class_indices[0] == number).clone()
            those[row] = False
            assert near[0, row, number] == closeness[0, row, those].max()


def test_many_are_classes_and_rows_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regressions, "MANY_WAYS", 64)
    monkeypatch.setattr(regressions, "MANY_STATES", 2**14)
    assert are_many(500, 100)
    assert not are_many(100, 100)
    assert not are_many(199, 199 - 64), "one label of most: no evidence speaks"
    assert are_many(2 * 150, 150)
    assert not are_many(10_000, 64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_classes_with_the_same_rows_are_answered_alike(dtype: torch.dtype) -> None:
    """Whichever of them comes on a list: rounding must not decide it."""
    features = torch.randn(1, SHOTS, 12, generator=stream(7), dtype=torch.float64)
    others = torch.randn(1, 2 * SHOTS, 12, generator=stream(8), dtype=torch.float64)
    rows = torch.cat([features.repeat(1, WAYS - 2, 1), others], dim=1).to(dtype)
    classes = torch.arange(WAYS).repeat_interleave(SHOTS)[None]
    model = network().to(dtype)
    given = Support(features=rows, class_indices=classes, ways=WAYS)
    asked = torch.randn(1, 6, 12, generator=stream(9), dtype=torch.float64).to(dtype)
    answers = model.answer(model.read(given, NoDraw(), Visibility.ISOLATED), asked)
    twins = answers[..., : WAYS - 2]
    apart = (twins - twins.mean(dim=-1, keepdim=True)).abs().max()
    assert apart < (1e-9 if dtype is torch.float64 else 1e-4)
    assert (answers[..., -1] - answers[..., 0]).abs().max() > 1e-2
