from typing import Any

import pytest

from unitail.errors import InvalidConfig
from unitail.training.config import TrainingConfig

GOOD: dict[str, Any] = {
    "steps": 10,
    "tokens_per_step": 100,
    "ways": (2, 4),
    "shots": (1, 3),
    "queries": 2,
    "learning_rate": 1e-3,
}


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("steps", 0, "1 or more"),
        ("ways", (1, 4), r"\[low, high\] with 2 <= low <= high"),
        ("ways", (4, 3), r"\[low, high\] with 2 <= low <= high"),
        ("shots", (0, 3), r"\[low, high\] with 1 <= low <= high"),
        ("queries", 0, "1 or more"),
        ("learning_rate", 0.0, "a positive number"),
        ("warmup_steps", 10, "0 to 9, fewer than the steps"),
        ("dictionary_growth", 1.5, "a share between 0 and 1"),
    ],
)
def test_values_out_of_range_are_refused(field: str, value: object, allowed: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{field} is out of range.*allowed: {allowed}"):
        TrainingConfig(**{**GOOD, field: value})
