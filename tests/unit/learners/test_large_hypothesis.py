from dataclasses import replace

import pytest
import torch
from torch import Tensor

from unitail.errors import InvalidEpisode
from unitail.framework.episode import Support
from unitail.learners.large_hypothesis import read_large
from unitail.randomness import stream
from unitail.relational.config import PRESETS
from unitail.relational.geometry import MIN_LIMITED_WIDTH
from unitail.relational.large.first_answer import LargeReading
from unitail.relational.model import Relational

ORDER = torch.arange(60)


def network(dtype: torch.dtype = torch.float64) -> Relational:
    return Relational(PRESETS["tiny"], seed=1).to(dtype).requires_grad_(False)


def support(offset: float = 0.0, width: int = 5) -> Support:
    classes = torch.arange(60) % 3
    features = torch.randn(60, width, generator=stream(0), dtype=torch.float64)
    features += 2 * torch.eye(width).double()[classes] + offset
    return Support(features=features[None], class_indices=classes[None], ways=3)


def test_answers_are_probabilities_and_right() -> None:
    task = support()
    answers = read_large(network(), task, ORDER)(task.features)
    assert answers.shape == (1, 60, 3)
    torch.testing.assert_close(answers.exp().sum(dim=-1), torch.ones(1, 60).double())
    assert (answers.argmax(dim=-1) == task.class_indices).double().mean() > 0.8


@pytest.mark.parametrize("limit", [None, 1.0])
def test_answers_are_those_of_pairs_before_blocks_correct_them(limit: float | None) -> None:
    model = Relational(replace(PRESETS["tiny"], coordinate_limit=limit), seed=1).double()
    torch.nn.init.zeros_(model.head.weight)
    torch.nn.init.zeros_(model.head.bias)
    width = 5 if limit is None else MIN_LIMITED_WIDTH
    task, queries = support(0.3, width), support(0.1, width).features[:, :7]
    read = model.read(task, model.draw(task, stream(0)))
    expected = model.answer(read, queries).log_softmax(dim=-1)
    answers = read_large(model.requires_grad_(False), task, ORDER)(queries)
    torch.testing.assert_close(answers, expected, rtol=0, atol=1e-3)


def test_single_precision_is_near_even_far_from_the_origin() -> None:
    for offset in (0.0, 1e4):
        task = support(offset)
        exact = read_large(network(), task, ORDER)(task.features[:, :9])
        single = read_large(network(torch.float32), task, ORDER)(task.features[:, :9])
        assert (exact.exp() - single.exp()).abs().max() < 0.01


def test_no_more_queries_than_asked_for_are_answered_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    def scores(reading: LargeReading, queries: Tensor) -> Tensor:
        sizes.append(len(queries))
        return torch.zeros(len(queries), reading.rows.ways)

    monkeypatch.setattr(LargeReading, "scores", scores)
    task = support()
    for chunk_size in (None, 25):
        hypothesis = read_large(network(), task, ORDER, chunk_size)
        replace(hypothesis, committee=None)(task.features)
    assert sizes == [60, 25, 25, 10]


def test_numbers_that_are_not_finite_are_refused() -> None:
    task = support()
    task.features[0, 3, 2] = torch.nan
    with pytest.raises(InvalidEpisode, match="support"):
        read_large(network(), task, ORDER)
