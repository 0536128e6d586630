import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from unitail.estimator.choices import Precision
from unitail.estimator.fitted import FittedSupport, Reading
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
        "class_shares": None,
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


def test_threads_do_not_change_answers(stand_in: Path) -> None:
    script = """
import sys
import numpy as np
import torch
from unitail.estimator.classifier import TailClassifier

generator = np.random.default_rng(0)
y = np.repeat(np.arange(5), 60)
X = 2 * np.eye(5)[y] + generator.normal(size=(300, 5))
answers = []
for threads in (1, 2):
    torch.set_num_threads(threads)
    answers.append(TailClassifier(sys.argv[1], device="cpu").fit(X, y).predict_proba(X[:50]))
print(np.abs(answers[0] - answers[1]).max())
"""
    found = subprocess.run(
        [sys.executable, "-c", script, str(stand_in)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,  # the fault may also hang
    )
    assert float(found.stdout.split()[-1]) < 1e-4
