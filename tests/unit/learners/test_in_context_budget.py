from dataclasses import replace

import pytest
import torch

from helpers.builders import small_model
from unitail.estimator.cost import trace_cost
from unitail.learners.in_context import MAX_NUMBERS, MAX_ROWS, episodes_at_once, queries_at_once
from unitail.nn.episode_model import Visibility
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational

MODEL = Relational(PRESETS["default"])


def test_queries_are_as_many_as_their_work_allows() -> None:
    assert queries_at_once(MODEL, 25, 5) == MAX_ROWS
    assert queries_at_once(MODEL, 4000, 10) == MAX_NUMBERS // MODEL.work(4000, 1, 10) < MAX_ROWS
    assert queries_at_once(MODEL, 10**9, 2) == 1
    together = queries_at_once(MODEL, 4000, 10, episodes=8)
    assert together == MAX_NUMBERS // (8 * MODEL.work(4000, 1, 10))
    assert queries_at_once(small_model(), 4000, 7) == MAX_ROWS


def test_episodes_are_as_many_as_their_work_allows() -> None:
    assert episodes_at_once(MODEL, 20, 5, 5) == MAX_NUMBERS // MODEL.work(25, 25, 5) > 100
    assert episodes_at_once(MODEL, 3000, 0, 5) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("num_support", "ways"), [(2000, 5), (500, 200), (100, 100)])
def test_what_fits_into_the_budget_takes_about_that_memory(num_support: int, ways: int) -> None:
    """The work that the shipped architecture states, beside the memory that it takes."""
    queries = queries_at_once(MODEL, num_support, ways)
    shallow = Relational(replace(PRESETS["default"], layers=1, joint_layers=0))
    read, answer = trace_cost(
        shallow.requires_grad_(False),
        num_support=num_support,
        ways=ways,
        feature_dim=16,
        num_queries=queries,
        visibility=Visibility.ISOLATED,
    )
    assert queries < MAX_ROWS
    taken = (answer.peak_bytes - read.kept_bytes) / torch.float32.itemsize
    assert 0.3 < taken / MAX_NUMBERS < 1.5
