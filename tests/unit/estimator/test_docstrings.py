"""What the docstring of the classifier shows and promises."""

import doctest
import inspect
import re
from types import FunctionType

import pytest

from unitail.estimator import classifier as module
from unitail.estimator.classifier import TailClassifier

METHODS = [
    name
    for name, member in vars(TailClassifier).items()
    if isinstance(member, FunctionType | classmethod) and not name.startswith("_")
]
"""The public methods that are written in the class; scikit-learn's own describe themselves."""


@pytest.mark.usefixtures("real_weights")
def test_the_examples_print_what_they_show() -> None:
    result = doctest.testmod(module)
    assert result.attempted >= 5
    assert result.failed == 0


def test_every_parameter_is_described_with_its_default() -> None:
    described = inspect.getdoc(TailClassifier) or ""
    for name, parameter in inspect.signature(TailClassifier).parameters.items():
        default = repr(parameter.default).replace("'", '"')
        assert re.search(rf"^{name} : .+, default={default}$", described, re.M), name


def test_the_methods_are_collected() -> None:
    assert {"fit", "predict", "plan", "load", "set_labels", "with_encoder"} <= {*METHODS}
    assert "set_fit_request" not in METHODS  # written by scikit-learn


@pytest.mark.parametrize("method", METHODS)
def test_methods_describe_their_parameters_and_result(method: str) -> None:
    function = getattr(TailClassifier, method)
    described = inspect.getdoc(function) or ""
    for name in inspect.signature(function).parameters:
        assert name == "self" or re.search(rf"^{name} : ", described, re.M), name
    assert "Returns\n-------\n" in described
