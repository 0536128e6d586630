import pickle
from pathlib import Path

import numpy as np
import pytest

from helpers.blobs import blobs
from helpers.forks import finish, fork
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.fitted import Fitted
from unitail.estimator.rows import Rows
from unitail.estimator.settings import Settings
from unitail.learners.in_context import InContextHypothesis

ROWS = Rows(
    np.random.default_rng(0).normal(size=(12, 4)), np.arange(12, dtype=np.int64) % 3, ways=3
)


def fitted(rows: Rows = ROWS, **parameters: object) -> Fitted:
    return Fitted.of(rows, Settings.of(TailClassifier(**parameters), seed=0))


def test_a_support_is_read_at_once_and_read_again_when_unpickled() -> None:
    before = fitted()
    pickled = pickle.dumps(before)
    assert len(pickled) < 2000  # rows and settings, not what was made of them
    answers = before.log_probabilities(ROWS.features)
    np.testing.assert_array_equal(pickle.loads(pickled).log_probabilities(ROWS.features), answers)


def test_isolated_supports_are_their_own_isolated_version() -> None:
    alone, joint = fitted(), fitted(visibility="joint")
    assert alone.isolated is alone
    np.testing.assert_array_equal(
        joint.isolated.log_probabilities(ROWS.features), alone.log_probabilities(ROWS.features)
    )


def test_only_so_many_rows_are_read() -> None:
    assert fitted().kept is ROWS
    assert list(fitted(max_support=6, visibility="joint").kept.shots) == [2, 2, 2]
    assert fitted(max_support=6).kept is ROWS  # isolated answers follow from all rows
    assert fitted(max_support=None).kept is ROWS


def test_what_is_seldom_asked_for_is_computed_once() -> None:
    one = fitted()
    assert one.held_out_scores is one.held_out_scores
    assert one.novelty is one.novelty
    assert "held_out_scores" not in vars(pickle.loads(pickle.dumps(one)))


def test_known_log_probabilities_make_sets_without_answering_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    support, y, queries, _ = blobs()
    classifier = TailClassifier().fit(support, y)
    expected = classifier.predict_set(queries, 0.8)
    answers = classifier.predict_log_proba(queries)
    monkeypatch.setattr(InContextHypothesis, "__call__", None)
    assert (classifier.predict_set(queries, 0.8, log_proba=answers) == expected).all()


def test_threads_do_not_change_answers(stand_in: Path, tmp_path: Path) -> None:
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
    output = tmp_path / "output"
    assert finish(fork(script, stand_in, output=output)) == 0, "the fault may also hang"
    assert float(output.read_text().split()[-1]) < 1e-4


@pytest.mark.parametrize("parameters", [{}, {"class_weight": {0: 7.0}}])
def test_probabilities_add_up_in_double_precision_whatever_the_model_works_in(
    parameters: dict[str, object],
) -> None:
    support, y, queries, _ = blobs(ways=5)
    classifier = TailClassifier(precision="single", **parameters).fit(support, y)
    np.testing.assert_allclose(classifier.predict_proba(queries).sum(axis=1), 1, atol=1e-14)


@pytest.mark.usefixtures("real_weights")
def test_a_column_on_one_side_of_zero_is_answered_alike_in_both_precisions() -> None:
    """Seen from the origin all rows lie in one direction, and regressions on it say nothing."""
    column = [-1.41550207, -1.49409056, -1.35543346, -1.79675412, -1.02966142, -0.24287105]
    support, queries = np.array([column], np.float32).T, np.array([[-1.7530812], [2.2583]])
    single, double = (
        TailClassifier(precision=each, scale="none").fit(support, [0, 0, 1, 1, 2, 2])
        for each in ("single", "double")
    )
    probabilities = single.predict_proba(queries)
    np.testing.assert_allclose(probabilities, double.predict_proba(queries), atol=1e-4)
