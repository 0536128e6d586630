import math

import numpy as np
import pytest
import torch

from unitail.evaluation.metrics import (
    BINS,
    Calibration,
    brier_score,
    negative_log_likelihood,
)

PROBABILITIES = torch.tensor([[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], [[0.5, 0.25, 0.25], [1, 0, 0]]])
ANSWERS, TRUTH = PROBABILITIES.double().log(), torch.tensor([[0, 1], [2, 0]])


def test_the_negative_log_likelihood_is_that_of_the_true_classes() -> None:
    losses = negative_log_likelihood(ANSWERS, TRUTH).tolist()
    expected = [-(math.log(0.7) + math.log(0.3)) / 2, -math.log(0.25) / 2]
    assert losses == pytest.approx(expected)


def test_the_brier_score_sums_squares_over_the_classes() -> None:
    first = (0.3**2 + 0.2**2 + 0.1**2 + 0.1**2 + 0.7**2 + 0.6**2) / 2
    second = (0.5**2 + 0.25**2 + 0.75**2 + 0) / 2
    assert brier_score(ANSWERS, TRUTH).tolist() == pytest.approx([first, second])


def test_answers_are_counted_by_confidence() -> None:
    calibration = Calibration.of(ANSWERS, TRUTH)
    places = [int(0.7 * BINS), int(0.6 * BINS), int(0.5 * BINS), BINS - 1]
    assert np.flatnonzero(calibration.counts).tolist() == sorted(places)
    assert calibration.correct.sum() == 2
    assert calibration.confidence.sum() == pytest.approx(0.7 + 0.6 + 0.5 + 1)
    # One answer a bin: right at 0.7 and 1, wrong at 0.6 and 0.5.
    assert calibration.error == pytest.approx((0.3 + 0.6 + 0.5 + 0) / 4)


def test_calibration_adds_up() -> None:
    halves = [Calibration.of(ANSWERS[:1], TRUTH[:1]), Calibration.of(ANSWERS[1:], TRUTH[1:])]
    whole, summed = Calibration.of(ANSWERS, TRUTH), sum(halves, Calibration.empty())
    assert np.array_equal(summed.counts, whole.counts)
    assert summed.error == pytest.approx(whole.error)
    assert math.isnan(Calibration.empty().error)


def test_accuracy_equal_to_confidence_is_calibrated() -> None:
    answers = torch.tensor([0.75, 0.25]).log().expand(1, 400, 2)
    truth = (torch.arange(400) % 4 == 0).long()[None]
    assert Calibration.of(answers, truth).error == pytest.approx(0, abs=1e-6)
    assert Calibration.of(answers, 1 - truth).error == pytest.approx(0.5)
