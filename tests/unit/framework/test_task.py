import math

import torch

from unitail.framework.task import accuracy, log_loss, zero_one_loss

PROBABILITIES = torch.tensor([[[0.5, 0.25, 0.25], [0.125, 0.375, 0.5]]])  # (1, 2, 3)
CLASSES = torch.tensor([[0, 1]])


def test_zero_one_loss_counts_wrong_answers() -> None:
    assert zero_one_loss(PROBABILITIES.log(), CLASSES).tolist() == [[0.0, 1.0]]


def test_log_loss_is_minus_the_log_probability_of_the_truth() -> None:
    expected = torch.tensor([[-math.log(0.5), -math.log(0.375)]])

    torch.testing.assert_close(log_loss(PROBABILITIES.log(), CLASSES), expected)


def test_losses_keep_the_type() -> None:
    for loss in (zero_one_loss, log_loss):
        assert loss(PROBABILITIES.double().log(), CLASSES).dtype == torch.float64


def test_accuracy_is_the_share_of_right_answers_in_each_episode() -> None:
    answers = torch.tensor([[[0.7, 0.3], [0.6, 0.4]], [[0.9, 0.1], [0.2, 0.8]]]).log()
    assert accuracy(answers, torch.tensor([[0, 1], [0, 1]])).tolist() == [0.5, 1.0]
