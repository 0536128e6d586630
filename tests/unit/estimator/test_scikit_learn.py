"""scikit-learn's own checks."""

from collections.abc import Callable

import pytest
from sklearn.utils.estimator_checks import check_array_api_input, parametrize_with_checks

from unitail.estimator.classifier import TailClassifier

Check = Callable[[TailClassifier], None]


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


def test_the_check_that_needs_an_environment_variable_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without SCIPY_ARRAY_API it skips itself."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    classifier = TailClassifier()
    check_array_api_input(
        "TailClassifier", classifier, array_namespace="numpy", expect_only_array_outputs=False
    )


def test_columns_are_known_by_name() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"height": [1.0, 2.0, 8.0, 9.0], "weight": [1.0, 2.0, 7.0, 8.0]})
    classifier = TailClassifier().fit(frame, ["small", "small", "large", "large"])
    assert list(classifier.feature_names_in_) == ["height", "weight"]
    assert list(classifier.predict(frame)) == ["small", "small", "large", "large"]
    with pytest.raises(ValueError, match="feature names should match"):
        classifier.predict(frame[["weight", "height"]])
