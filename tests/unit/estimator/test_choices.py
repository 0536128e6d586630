from pathlib import Path

import pytest
import torch

from helpers.builders import small_model
from unitail.errors import InvalidCheckpoint
from unitail.estimator.choices import (
    DOUBLE_UP_TO,
    Precision,
    choose_model,
    prepared,
)
from unitail.learners import pretrained

CPU = torch.device("cpu")


def test_precision_follows_the_support() -> None:
    assert Precision.AUTO.dtype(DOUBLE_UP_TO, CPU) == torch.float64
    assert Precision.AUTO.dtype(DOUBLE_UP_TO + 1, CPU) == torch.float32
    assert Precision.AUTO.dtype(1, torch.device("mps")) == torch.float32
    assert Precision.DOUBLE.dtype(10**6, CPU) == torch.float64
    assert Precision.SINGLE.dtype(1, CPU) == torch.float32


def test_the_shipped_model_is_shared() -> None:
    assert choose_model("default") is None
    assert prepared(None, CPU, torch.float32) is pretrained.load_default()


def test_other_models_are_copied() -> None:
    model = small_model()
    ready = prepared(model, CPU, torch.float32)
    assert ready is not model
    assert next(ready.parameters()).dtype == torch.float32
    assert not ready.training
    assert next(model.parameters()).dtype == torch.float64


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidCheckpoint, match="is not a model folder"):
        choose_model(str(tmp_path))
