from dataclasses import replace

import numpy as np
import pytest

from unitail.errors import UserError
from unitail.evaluation.metrics import Calibration
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Evaluation, Outcome, Scores

SCORES = Scores(
    hashes=np.arange(4, dtype=np.uint64),
    accuracy=np.array([0.2, 0.4, 0.6, 0.8], np.float32),
    nll=np.array([1, 2, 3, np.inf], np.float32),
    brier=np.full(4, 0.5, np.float32),
    seconds=np.full(4, 0.002, np.float32),
    memory=np.array([1, 5, 2, 3], np.float32),
)
FOUND = Evaluation(
    source="set",
    protocol=EvaluationProtocol(),
    device="cpu",
    outcome=Outcome.ANSWERED,
    reason="",
    scores=SCORES,
    calibration=Calibration.empty(),
)


def test_the_summary_has_means_and_intervals() -> None:
    assert FOUND.accuracy.mean == pytest.approx(0.5)
    assert FOUND.accuracy.count == 4
    assert FOUND.brier.half_width == 0
    assert FOUND.milliseconds == pytest.approx(2)
    assert FOUND.memory == 5
    assert str(FOUND).startswith("set, 5-way 1-shot: accuracy 0.5000 ± 0.4")


def test_a_true_class_of_probability_zero_is_infinitely_bad() -> None:
    assert FOUND.nll.mean == np.inf


def test_a_learner_that_did_not_answer_has_no_mean() -> None:
    none = replace(FOUND, outcome=Outcome.CANNOT, reason="too wide", scores=Scores.joined([]))
    assert str(none) == "set, 5-way 1-shot: cannot (too wide)"
    for name in ("accuracy", "milliseconds", "memory"):
        with pytest.raises(UserError, match="no scores on set: got cannot: too wide"):
            getattr(none, name)


def test_batches_are_joined_in_order() -> None:
    joined = Scores.joined([SCORES, SCORES])
    assert joined.hashes.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert joined.hashes.dtype == np.uint64
    assert joined.memory.dtype == np.float32
    assert Scores.joined([]).hashes.dtype == np.uint64
