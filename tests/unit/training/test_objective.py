import math

import pytest
import torch

from unitail.framework.episode import Query
from unitail.training.objective import query_loss


def test_guessing_costs_the_logarithm_of_the_classes() -> None:
    query = Query(features=torch.zeros(2, 3, 1), class_indices=torch.zeros(2, 3, dtype=torch.long))
    assert query_loss(torch.zeros(2, 3, 4), query).item() == pytest.approx(math.log(4))


def test_being_right_costs_nothing() -> None:
    class_indices = torch.tensor([[0, 1], [1, 0]])
    query = Query(features=torch.zeros(2, 2, 1), class_indices=class_indices)
    scores = 100 * torch.nn.functional.one_hot(class_indices, 2).float()
    assert query_loss(scores, query).item() == pytest.approx(0)
