import pytest
import torch
from torch import nn

from unitail.baselines.sequences import (
    copy_for_queries,
    gather_answers,
    initialise_label_columns,
    with_blank_labels,
    with_labels,
)
from unitail.randomness import stream


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_labels_follow_the_features_as_one_hots(dtype: torch.dtype) -> None:
    features = torch.randn(2, 3, 4, generator=stream(0), dtype=dtype)
    slots = torch.tensor([[0, 4, 2], [1, 1, 3]])
    tokens = with_labels(features, slots, 5)
    assert tokens.dtype == dtype
    assert torch.equal(tokens[..., :4], features)
    assert torch.equal(tokens[..., 4:], torch.eye(5, dtype=dtype)[slots])


def test_a_blank_label_is_zeros() -> None:
    features = torch.randn(2, 3, 4, generator=stream(0))
    tokens = with_blank_labels(features, 5)
    assert torch.equal(tokens[..., :4], features)
    assert torch.equal(tokens[..., 4:], torch.zeros(2, 3, 5))


def test_every_query_gets_the_support_of_its_own_episode() -> None:
    support = torch.randn(2, 4, 3, generator=stream(0))
    queries = torch.randn(2, 5, 3, generator=stream(1))
    copies, asked = copy_for_queries(support, queries)
    assert (copies.shape, asked.shape) == ((10, 4, 3), (10, 1, 3))
    for episode in range(2):
        for query in range(5):
            assert torch.equal(copies[5 * episode + query], support[episode])
            assert torch.equal(asked[5 * episode + query, 0], queries[episode, query])


def test_answers_go_back_to_their_episodes() -> None:
    queries = torch.randn(2, 5, 3, generator=stream(1))
    _, asked = copy_for_queries(queries, queries)
    assert torch.equal(gather_answers(asked.squeeze(1), 2), queries)


def test_a_label_starts_with_the_weight_of_all_features_together() -> None:
    width, classes = 400, 8
    layer = nn.Linear(width + classes, 500)
    nn.init.normal_(layer.weight, std=0.8 / width**0.5, generator=stream(0))
    before = layer.weight.clone()
    initialise_label_columns(layer.weight, slice(width, width + classes), stream(1))
    assert torch.equal(layer.weight[:, :width], before[:, :width])
    assert layer.weight.requires_grad
    features = torch.randn(classes, width, generator=stream(2))
    of_features = features @ layer.weight[:, :width].T
    of_labels = layer.weight[:, width:].T
    assert (of_labels.std() / of_features.std()).item() == pytest.approx(1, abs=0.05)
