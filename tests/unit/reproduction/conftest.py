"""Results that several tests of the report look at."""

from collections.abc import Callable

import pytest

from unitail.benchmark.means import DataSetMeans
from unitail.evaluation.result import Outcome

Make = Callable[..., DataSetMeans]


@pytest.fixture
def row() -> Make:
    """Return what makes a line of results."""

    def make(data_set: str, learner: str, accuracy: float, **changes: object) -> DataSetMeans:
        facts: dict[str, object] = {
            "learner": learner,
            "group": "in-domain",
            "protocol": "5-way 5-shot",
            "outcome": Outcome.ANSWERED,
            "accuracy": accuracy,
            "half_width": 0.003,
            "encoder": "net",
            "data_set": data_set,
            "ways": 5,
            "shots": 5,
            "queries": 15,
            "shares": "balanced",
            "reason": "",
            "device": "cpu",
            "episodes": 100,
            **changes,
        }
        return DataSetMeans(**facts)  # type: ignore[arg-type]

    return make
