import torch

from helpers.builders import flops, random_support, small_model
from unitail.estimator.rehearsal import Cost, Speed, rehearse, speed_of
from unitail.nn.visibility import Visibility
from unitail.randomness import stream
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational


def test_operations_are_those_of_the_real_run() -> None:
    model = small_model().requires_grad_(False)
    support = random_support((4, 4, 4), episodes=1)
    draw = model.draw(support, stream(0))
    query = torch.randn(1, 7, 5, dtype=torch.float64)
    reading, answering = rehearse(
        model,
        num_support=12,
        ways=3,
        feature_dim=5,
        num_queries=7,
        visibility=Visibility.ISOLATED,
    )
    read = model.read(support, draw)
    assert reading.operations <= 1.1 * flops(lambda: model.read(support, draw))
    assert answering.operations <= 1.1 * flops(lambda: model.answer(read, query))
    assert min(reading.operations, answering.operations) > 0


def reading_cost(num_support: int, ways: int) -> Cost:
    """Rehearse reading a support with a small relational model."""
    reading, _ = rehearse(
        Relational(PRESETS["tiny"]).requires_grad_(False),
        num_support=num_support,
        ways=ways,
        feature_dim=3,
        num_queries=1,
        visibility=Visibility.ISOLATED,
    )
    return reading


def test_inverses_are_counted() -> None:
    costs = [reading_cost(rows, ways=2) for rows in (1000, 2000)]
    assert costs[1].operations > 5 * costs[0].operations  # between squares and cubes
    assert costs[0].peak_bytes > costs[0].kept_bytes > 1000**2 * 4


def test_a_rehearsal_takes_few_calls_however_large_the_task() -> None:
    assert reading_cost(2000, ways=500).calls < 3000


def test_time_adds_up() -> None:
    cost = Cost(peak_bytes=0, kept_bytes=0, operations=20, moved_bytes=30, calls=4)
    assert Speed(operations=10.0, bytes=15.0, calls=2.0).seconds(cost) == 6.0


def test_the_speed_of_a_device_is_measured_once() -> None:
    speed = speed_of(torch.device("cpu"), torch.float32)
    assert speed is speed_of(torch.device("cpu"), torch.float32)
    assert speed.operations > 1e8
    assert min(speed.bytes, speed.calls) > 1e3
