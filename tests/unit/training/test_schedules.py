from dataclasses import replace

import pytest
import torch

from unitail.training.config import Schedule, TrainingConfig
from unitail.training.schedules import CYCLE_FLOOR, active_slots, learning_rate

CONFIG = TrainingConfig(steps=100, learning_rate=2.0, warmup_steps=10, dictionary_growth=0.5)


def test_the_cosine_rises_then_falls() -> None:
    rates = [learning_rate(step, CONFIG) for step in range(100)]
    assert rates[0] == pytest.approx(0.2)
    assert rates[9] == rates[10] == 2.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == pytest.approx(0.04, rel=0.05)


def test_the_cycle_is_that_of_torch() -> None:
    config = replace(CONFIG, schedule=Schedule.CYCLIC, cycle_steps=20)
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    peer = torch.optim.lr_scheduler.CyclicLR(
        optimiser, base_lr=2.0 * CYCLE_FLOOR, max_lr=2.0, step_size_up=10
    )
    for step in range(60):
        assert learning_rate(step, config) == pytest.approx(peer.get_last_lr()[0])
        optimiser.step()
        peer.step()


def test_the_dictionary_grows_from_the_ways_to_its_size() -> None:
    slots = [active_slots(step, 5, 25, CONFIG) for step in range(100)]
    assert slots[0] == 5
    assert slots[25] == 15
    assert slots[:50] == sorted(slots[:50])
    assert set(slots[50:]) == {25}
