from pathlib import Path

import pytest
import torch
from builders import small_model

from unitail.errors import InvalidCheckpoint, InvalidConfig
from unitail.estimator.choices import (
    DOUBLE_UP_TO,
    Precision,
    choose_device,
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


def test_the_automatic_device_is_there() -> None:
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert choose_device("auto").type == expected
    assert choose_device(torch.device("cpu")) == CPU


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="device is unknown: got 'cuda'; allowed: auto, cpu or"):
        choose_device("cuda")


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
