"""scikit-learn's own checks."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from unitail.estimator.classifier import TailClassifier

Check = Callable[[TailClassifier], None]


@parametrize_with_checks([TailClassifier()])
def test_all_checks_pass(estimator: TailClassifier, check: Check) -> None:
    check(estimator)


@pytest.mark.usefixtures("real_weights")
@parametrize_with_checks([TailClassifier()])
def test_all_checks_pass_with_the_shipped_weights(estimator: TailClassifier, check: Check) -> None:
    check(estimator)


JOINT = {
    "check_methods_subset_invariance": "an answer depends on the other rows of the call by intent",
}


@parametrize_with_checks(
    [TailClassifier(visibility="joint")], expected_failed_checks=lambda _: JOINT
)
def test_joint_answers_fail_only_where_they_must(estimator: TailClassifier, check: Check) -> None:
    check(estimator)


@pytest.mark.slow
def test_the_check_that_needs_an_environment_variable_passes(stand_in: Path) -> None:
    """Without SCIPY_ARRAY_API, which must be set before scipy is imported, it skips itself."""
    script = (
        "import sys\n"
        "from sklearn.utils.estimator_checks import check_array_api_input\n"
        "from unitail.estimator.classifier import TailClassifier\n"
        "check_array_api_input('TailClassifier', TailClassifier(sys.argv[1]),"
        " array_namespace='numpy', expect_only_array_outputs=False)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(stand_in)],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr


def test_columns_are_known_by_name() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"height": [1.0, 2.0, 8.0, 9.0], "weight": [1.0, 2.0, 7.0, 8.0]})
    classifier = TailClassifier().fit(frame, ["small", "small", "large", "large"])
    assert list(classifier.feature_names_in_) == ["height", "weight"]
    assert list(classifier.predict(frame)) == ["small", "small", "large", "large"]
    with pytest.raises(ValueError, match="feature names should match"):
        classifier.predict(frame[["weight", "height"]])
