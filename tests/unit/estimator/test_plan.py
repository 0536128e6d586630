import subprocess
import sys
from pathlib import Path

import pytest

from unitail.errors import InvalidConfig, UserError
from unitail.estimator.classifier import TailClassifier
from unitail.learners.budget import MAX_ROWS


def test_a_plan_says_what_will_happen() -> None:
    plan = TailClassifier().plan(25, 5, 10_000, n_features=64)
    assert (plan.support_read, plan.reduced, plan.precision) == (25, False, "float64")
    assert plan.chunk_size == MAX_ROWS
    assert 0 < plan.seconds < 60
    assert 25 * 64 * 8 < plan.memory_bytes < 1e9
    assert "25 rows read, 4096 queries at a time, in float64: about" in str(plan)


def test_large_supports_are_planned_as_they_are_reduced() -> None:
    plan = TailClassifier(max_support=100).plan(50_000, 7, 10, n_features=16)
    assert (plan.support_read, plan.reduced, plan.precision) == (98, True, "float64")
    assert "98 rows read, after a reduction" in str(plan)


def test_memory_grows_with_the_square_of_the_support() -> None:
    small, large = (
        TailClassifier(precision="single").plan(rows, 4, 10, n_features=8).memory_bytes
        for rows in (500, 2000)
    )
    assert 8 < large / small < 20


def test_draws_add_up() -> None:
    one, two = (TailClassifier(n_draws=draws).plan(64, 4, 100) for draws in (1, 2))
    assert two.memory_bytes > one.memory_bytes


def test_joint_calls_are_planned_as_a_whole() -> None:
    plan = TailClassifier(visibility="joint").plan(10, 2, 50, n_features=4)
    assert plan.chunk_size is None
    assert "all queries at a time" in str(plan)
    with pytest.raises(UserError, match="got 5000 rows in one call"):
        TailClassifier(visibility="joint").plan(10, 2, 5000)


def test_the_width_is_that_of_the_last_fit() -> None:
    classifier = TailClassifier().fit([[0.0], [1.0]], [0, 1])
    assert classifier.plan(100, 2, 10) == classifier.plan(100, 2, 10)
    narrow, wide = classifier.plan(100, 2, 10), classifier.plan(100, 2, 10, n_features=5000)
    assert narrow.memory_bytes < wide.memory_bytes


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
def test_the_planned_memory_is_what_is_used(stand_in: Path) -> None:
    script = """
import sys
from pathlib import Path
import numpy as np
from unitail.estimator.classifier import TailClassifier

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

classifier = TailClassifier(sys.argv[1], device="cpu")
features = np.random.default_rng(0).normal(size=(1600, 16)).astype(np.float32)
classifier.fit(features[:64], np.arange(64) % 4).predict(features[:10])
plan = classifier.plan(1600, 4, 1600)
before = peak()
classifier.fit(features, np.arange(1600) % 4).predict(features)
print((peak() - before) / plan.memory_bytes)
"""
    found = subprocess.run(
        [sys.executable, "-c", script, str(stand_in)], capture_output=True, text=True, check=True
    )
    assert 0.5 < float(found.stdout) < 1.5
