import pytest

from unitail.training.config import TrainingConfig
from unitail.training.schedules import active_slots, learning_rate

CONFIG = TrainingConfig(
    steps=100,
    tokens_per_step=1,
    ways=(2, 5),
    shots=(1, 1),
    queries=1,
    learning_rate=2.0,
    warmup_steps=10,
    dictionary_growth=0.5,
)


def test_the_learning_rate_rises_then_falls() -> None:
    rates = [learning_rate(step, CONFIG) for step in range(100)]
    assert rates[0] == pytest.approx(0.2)
    assert rates[9] == rates[10] == 2.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == pytest.approx(0.04, rel=0.05)


def test_the_dictionary_grows_from_the_ways_to_its_size() -> None:
    slots = [active_slots(step, 25, CONFIG) for step in range(100)]
    assert slots[0] == 5
    assert slots[25] == 15
    assert slots[:50] == sorted(slots[:50])
    assert set(slots[50:]) == {25}
