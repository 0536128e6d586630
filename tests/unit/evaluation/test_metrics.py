import torch

from unitail.evaluation.metrics import accuracy


def test_accuracy_is_the_share_of_right_answers_in_each_episode() -> None:
    log_probabilities = torch.tensor([[[0.0, -1], [-1, 0]], [[0, -1], [0, -1]]])
    class_indices = torch.tensor([[0, 1], [1, 1]])
    assert accuracy(log_probabilities, class_indices).tolist() == [1.0, 0.0]
