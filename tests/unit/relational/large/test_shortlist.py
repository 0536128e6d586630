"""Blocks for few classes of each row: the same answers where nothing is left out."""

import pytest
import torch
from torch import Tensor

from unitail.randomness import stream
from unitail.relational.block import FusedBlock
from unitail.relational.class_lists import FewClasses
from unitail.relational.config import PRESETS
from unitail.relational.large import shortlist
from unitail.relational.large.shortlist import cache_few, num_known, update_few
from unitail.relational.regressions import NUM_OPERATORS
from unitail.relational.relations import Relations

WAYS, LABELLED, SEEN, ROWS = 5, 7, 9, 4
CONFIG = PRESETS["tiny"]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=stream(seed), dtype=torch.float64)


def block() -> FusedBlock:
    made = FusedBlock(CONFIG).double().requires_grad_(False)
    made.initialise(stream(1), 2)
    torch.nn.init.normal_(made.gate.weight, generator=stream(2))
    return made


def states_of(few: FewClasses, states: Tensor) -> Tensor:
    """Take the states (B, rows, K, width) of the classes of each row, and of one other."""
    missing = torch.ones(*states.shape[:3]).scatter(2, few.classes, 0).argmax(dim=2, keepdim=True)
    places = torch.cat([few.classes, missing], dim=2).unsqueeze(-1)
    return states.take_along_dim(places, dim=2)


@pytest.mark.parametrize("many", [0, WAYS])
def test_a_state_for_all_but_one_class_changes_nothing(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By class and by one product; of seen rows the last two have no label."""
    monkeypatch.setattr(shortlist, "MAX_UNLISTED_WAYS", many)
    monkeypatch.setattr(shortlist, "CROWDED", 0)
    labels = torch.arange(2 * LABELLED).view(2, LABELLED) % WAYS
    one_hot = torch.nn.functional.one_hot(labels, WAYS).double()
    seen, asked = normal(2, SEEN, WAYS, CONFIG.channels), normal(2, ROWS, WAYS, CONFIG.channels)
    size = normal(2, CONFIG.context_dim, seed=3)
    relations = Relations(
        channels=normal(2, CONFIG.relations, ROWS, SEEN, seed=4),
        operators=normal(2, NUM_OPERATORS, ROWS, LABELLED, seed=5),
        candidates=normal(2, 0, ROWS, WAYS),
        seen_scale=normal(2, ROWS, SEEN, seed=6).exp(),
    )
    dense = block()
    expected = dense.update(asked, dense.cache(seen, one_hot, size), relations)
    few = FewClasses.best(normal(2, SEEN, WAYS, seed=7), WAYS - 1, labels)
    rows = FewClasses.best(normal(2, ROWS, WAYS, seed=8), WAYS - 1)
    cache = cache_few(dense, states_of(few, seen), few, labels, size)
    states = update_few(dense, states_of(rows, asked), rows, cache, relations)
    torch.testing.assert_close(states, states_of(rows, expected), rtol=0, atol=1e-10)


def test_few_rows_have_states_for_more_classes() -> None:
    assert [num_known(rows) for rows in (2, 500, 1000, 2000, 10_000)] == [32, 32, 16, 8, 8]
