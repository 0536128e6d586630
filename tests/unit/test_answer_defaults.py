"""What nobody says is the same wherever it is asked."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from unitail import TailClassifier
from unitail.answer_defaults import COVERAGE, TOP
from unitail.cli.commands.predict import predict
from unitail.client import Client
from unitail.engines.job import answer_rows_to_folder
from unitail.service import messages
from unitail.service.questions import AnswerOptions
from unitail.service.routes import predict_files as predict_uploads
from unitail.workflows.predict import PredictOptions

ASKED = [TailClassifier.predict_set, Client.predict, predict, PredictOptions, answer_rows_to_folder]


@pytest.mark.parametrize(
    "asked", [*ASKED, predict_uploads, AnswerOptions], ids=lambda it: it.__qualname__
)
def test_sets_and_classes_are_alike(asked: Callable[..., Any]) -> None:
    said = inspect.signature(asked).parameters
    assert said["coverage"].default == COVERAGE
    assert "top" not in said or said["top"].default == TOP


def test_a_request_without_words_is_alike() -> None:
    assert messages.Question.model_fields["coverage"].default == COVERAGE
