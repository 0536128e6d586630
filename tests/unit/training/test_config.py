from typing import Any

import pytest

from unitail.errors import InvalidConfig
from unitail.training.config import TrainingConfig, ValidationConfig

GOOD: dict[str, Any] = {"steps": 10, "learning_rate": 1e-3}


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("steps", 0, "1 or more"),
        ("report_every", 0, "1 or more"),
        ("learning_rate", 0.0, "a finite number above 0"),
        ("learning_rate", float("inf"), "a finite number above 0"),
        ("beta2", 1.0, "0 or more, below 1"),
        ("clip_norm", -1.0, "a finite number above 0"),
        ("warmup_steps", 10, "0 to 9, fewer than the steps"),
        ("dictionary_growth", 1.5, "between 0 and 1"),
        ("weight_decay", -0.1, "between 0 and 1"),
        ("weight_decay", 0.1, "0, or optimiser"),
    ],
)
def test_values_out_of_range_are_refused(field: str, value: object, allowed: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{field} is out of range.*allowed: {allowed}"):
        TrainingConfig(**{**GOOD, field: value})


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("every", 0, "1 or more"),
        ("episodes", 7, "8 or more"),
        ("ways", 1, "2 or more"),
        ("shots", (), "one or more numbers"),
        ("shots", (0,), "one or more numbers"),
        ("queries", 0, "1 or more"),
    ],
)
def test_validation_out_of_range_is_refused(field: str, value: Any, allowed: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidConfig, match=f"{field} is out of range.*allowed: {allowed}"):
        ValidationConfig(**{field: value})
