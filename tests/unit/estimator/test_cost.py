import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.builders import flops, random_support, small_model
from helpers.forks import finish, fork
from unitail.errors import InvalidConfig, UserError
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.cost import Cost, Plan, Speed, speed_of, trace_cost
from unitail.learners.in_context import MAX_ROWS
from unitail.nn.episode_model import Visibility
from unitail.randomness import stream
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational
from unitail.relational.regressions import NUM_LOGISTIC, NUM_RIDGES

SHALLOW = Relational(replace(PRESETS["default"], layers=1, joint_layers=0)).requires_grad_(False)
"""As wide as the default model: to trace_cost each layer takes its time."""


TINY = Relational(replace(PRESETS["tiny"], layers=2)).requires_grad_(False)
TAIL = small_model()
"""Where any model will do: it is rehearsed in a fraction of the time."""


@cache
def usual_plan() -> Plan:
    """Return the plan that others are held to."""
    return TailClassifier(SHALLOW).plan(25, 5, 10_000, n_features=64)


def test_a_plan_says_what_will_happen() -> None:
    plan = usual_plan()
    assert (plan.support_read, plan.reduced, plan.precision) == (25, False, "float64")
    assert plan.chunk_size == MAX_ROWS
    assert 0 < plan.seconds < 60
    assert 25 * 64 * 8 < plan.memory_bytes < 1e9
    assert "25 rows read, 4096 queries at a time, in float64: about" in str(plan)


def test_large_supports_are_planned_as_they_are_reduced() -> None:
    plan = TailClassifier(TAIL, max_support=100).plan(50_000, 7, 10, n_features=16)
    assert (plan.support_read, plan.reduced, plan.precision) == (98, True, "float64")
    assert "98 rows read, after a reduction" in str(plan)


@pytest.mark.slow
def test_memory_grows_with_the_square_of_the_support() -> None:
    small, large = (
        TailClassifier(SHALLOW, precision="single", max_support=None)
        .plan(rows, 4, 10, n_features=8)
        .memory_bytes
        for rows in (500, 2000)
    )
    assert 8 < large / small < 20


def test_a_pool_is_planned_for() -> None:
    classifier = TailClassifier(SHALLOW)
    plan = classifier.plan(25, 5, 10_000, n_features=64, n_pool=50_000)
    assert (plan.pool_read, plan.precision) == (1000, "float32")
    assert "25 rows read, plus 1000 unlabelled rows, " in str(plan)
    assert plan.memory_bytes > usual_plan().memory_bytes + 50_000 * 64 * 8
    assert plan.chunk_size is not None
    assert plan.chunk_size < 0.7 * MAX_ROWS, "queries look at the pool, too"
    with pytest.raises(InvalidConfig, match="n_pool is out of range: got -1; allowed: 0 or more"):
        classifier.plan(20, 2, 10, n_pool=-1)


def test_draws_add_up() -> None:
    one, two = (TailClassifier(TAIL, n_draws=n).plan(25, 5, 100, n_features=64) for n in (1, 2))
    assert two.memory_bytes > one.memory_bytes


def test_joint_calls_are_planned_as_a_whole() -> None:
    model = small_model(visibility=Visibility.JOINT)
    plan = TailClassifier(model).plan(10, 2, 50, n_features=4)
    assert plan.chunk_size is None
    assert "all queries at a time" in str(plan)
    with pytest.raises(UserError, match="got 5000 rows in one call"):
        TailClassifier(visibility="joint").plan(10, 2, 5000)


def test_the_width_is_that_of_the_last_fit() -> None:
    classifier = TailClassifier(TAIL)
    sizes = (100, 2, 10)
    wide, narrow = (classifier.plan(*sizes, width).memory_bytes for width in (1024, 300))
    assert classifier.plan(*sizes).memory_bytes == wide > narrow
    classifier.fit(np.eye(2, 300), [0, 1])
    assert classifier.plan(*sizes).memory_bytes == narrow


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((1, 2, 1, 1), "n_support is out of range: got 1; allowed: at least one for each of 2"),
        ((2, 1, 1, 1), "n_classes is out of range: got 1; allowed: 2 or more"),
        ((2, 2, 0, 1), "n_queries is out of range: got 0; allowed: 1 or more"),
        ((2, 2, 1, 0), "n_features is out of range: got 0; allowed: 1 or more"),
    ],
)
def test_impossible_sizes_are_refused(sizes: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        TailClassifier().plan(*sizes)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory as Linux tells it")
def test_the_planned_memory_is_what_is_used(stand_in: Path, tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
import numpy as np
from unitail.estimator.classifier import TailClassifier

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

classifier = TailClassifier(sys.argv[1], device="cpu")
features = np.random.default_rng(0).normal(size=(1200, 16)).astype(np.float32)
classifier.fit(features[:64], np.arange(64) % 4).predict(features[:10])
plan = classifier.plan(1200, 4, 1200)
before = peak()
classifier.fit(features, np.arange(1200) % 4).predict(features)
print((peak() - before) / plan.memory_bytes)
"""
    output = tmp_path / "output"
    assert finish(fork(script, stand_in, output=output)) == 0, output.read_text()
    assert 0.5 < float(output.read_text()) < 1.5


# Rehearsals


def test_operations_are_those_of_the_real_run() -> None:
    model = TINY
    support = random_support((4, 4, 4), episodes=1, dtype=torch.float32)
    draw = model.draw(support, stream(0))
    read = model.read(support, draw)
    reading, answering = trace_cost(
        model,
        num_support=12,
        ways=3,
        feature_dim=5,
        num_queries=7,
        visibility=Visibility.ISOLATED,
    )
    matrices = NUM_RIDGES + 2 * NUM_LOGISTIC
    inverses = 3 * matrices * 12**3  # which torch's own count leaves out
    assert reading.operations == flops(lambda: model.read(support, draw)) + inverses
    assert answering.operations == flops(lambda: model.answer(read, torch.randn(1, 7, 5))) > 0


def reading_cost(num_support: int, ways: int) -> Cost:
    """Rehearse reading a support with a small relational model."""
    reading, _ = trace_cost(
        TINY,
        num_support=num_support,
        ways=ways,
        feature_dim=3,
        num_queries=1,
        visibility=Visibility.ISOLATED,
    )
    return reading


@pytest.mark.slow
def test_inverses_are_counted() -> None:
    costs = [reading_cost(rows, ways=2) for rows in (1000, 2000)]
    assert costs[1].operations > 5 * costs[0].operations  # between squares and cubes
    assert costs[0].peak_bytes > costs[0].kept_bytes > 1000**2 * 4


def test_a_rehearsal_takes_few_calls_however_large_the_task() -> None:
    assert reading_cost(2000, ways=500).calls < 4500


def test_time_adds_up() -> None:
    cost = Cost(peak_bytes=0, kept_bytes=0, operations=20, moved_bytes=30, calls=4)
    assert Speed(operations=10.0, bytes=15.0, calls=2.0).seconds(cost) == 6.0


def test_the_speed_of_a_device_is_measured_once() -> None:
    speed = speed_of(torch.device("cpu"), torch.float32)
    assert speed is speed_of(torch.device("cpu"), torch.float32)
    assert speed.operations > 1e8
    assert min(speed.bytes, speed.calls) > 1e3


def test_memory_of_a_large_support_is_bounded_by_its_rows_and_width() -> None:
    million = TailClassifier(device="cpu").plan(1_000_000, 10, 100, n_features=256)
    assert (million.support_read, million.reduced) == (1_000_000, False)
    data = 1_000_000 * 256 * 8
    assert data < million.memory_bytes < 3 * data
    assert "1000000 rows read, 4096 queries at a time, in float32" in str(million)
    chunks = TailClassifier(device="cpu", chunk_size=7).plan(1_000_000, 10, 100, n_features=256)
    assert chunks.chunk_size == 7
    many = TailClassifier(device="cpu").plan(1_000_000, 10_000, 100, n_features=256)
    assert many.memory_bytes < 3.5 * data
    assert many.seconds > million.seconds / 100
