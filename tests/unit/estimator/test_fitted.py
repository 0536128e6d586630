import pickle

import numpy as np
import torch

from unitail.estimator.choices import Precision
from unitail.estimator.fitted import (
    MOST_AT_ONCE,
    PAIRS_AT_ONCE,
    STATES_AT_ONCE,
    FittedSupport,
    Reading,
    queries_at_once,
)
from unitail.estimator.reduction import Rows
from unitail.nn.visibility import Visibility

ROWS = Rows(
    np.random.default_rng(0).normal(size=(12, 4)), np.arange(12, dtype=np.int64) % 3, ways=3
)


def reading(**changes: object) -> Reading:
    options: dict[str, object] = {
        "model": None,
        "device": torch.device("cpu"),
        "precision": Precision.AUTO,
        "visibility": Visibility.ISOLATED,
        "num_draws": 1,
        "seed": 0,
        "chunk_size": None,
        "max_support": 4000,
    }
    return Reading(**{**options, **changes})  # type: ignore[arg-type]


def test_what_was_read_is_kept_but_not_pickled() -> None:
    fitted = FittedSupport(ROWS, reading())
    answers = fitted.log_probabilities(ROWS.features)
    assert fitted.hypothesis is fitted.hypothesis
    again = pickle.loads(pickle.dumps(fitted))
    assert set(vars(again)) == {"rows", "reading"}
    np.testing.assert_array_equal(again.log_probabilities(ROWS.features), answers)


def test_isolated_supports_are_their_own_isolated_version() -> None:
    fitted = FittedSupport(ROWS, reading())
    assert fitted.isolated is fitted
    joint = FittedSupport(ROWS, reading(visibility=Visibility.JOINT))
    np.testing.assert_array_equal(
        joint.isolated.log_probabilities(ROWS.features), fitted.log_probabilities(ROWS.features)
    )


def test_only_so_many_rows_are_read() -> None:
    assert FittedSupport(ROWS, reading()).kept is ROWS
    few = FittedSupport(ROWS, reading(max_support=6)).kept
    assert list(few.shots) == [2, 2, 2]
    assert FittedSupport(ROWS, reading(max_support=None)).kept is ROWS


def test_queries_are_answered_in_bounded_memory() -> None:
    assert queries_at_once(25, 5) == MOST_AT_ONCE
    assert queries_at_once(4000, 10) == PAIRS_AT_ONCE // 4000
    assert queries_at_once(1000, 1000) == STATES_AT_ONCE // 1000
    assert queries_at_once(10**9, 2) == 1
