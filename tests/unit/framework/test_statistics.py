import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import unitail
from unitail.errors import UserError
from unitail.framework.statistics import LEVEL, MeanInterval, holm


def test_interval_is_students() -> None:
    values = np.array([1.0, 2.0, 4.0, 7.0])
    interval = MeanInterval.of(values, level=0.9)
    low, high = stats.t.interval(0.9, 3, loc=values.mean(), scale=stats.sem(values))

    assert (interval.low, interval.high) == pytest.approx((low, high))
    assert (interval.mean, interval.count) == (3.5, 4)


def test_interval_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    intervals = [MeanInterval.of(rng.normal(3.0, 2.0, size=5)) for _ in range(1000)]
    covered = sum(interval.low <= 3.0 <= interval.high for interval in intervals)

    assert stats.binomtest(covered, 1000, LEVEL).pvalue > 1e-3


def test_words_say_the_level() -> None:
    said = r"(?<![\d.])(\d+) %[\s\"f]+intervals?|Intervals \((\d+) %\)"
    package = Path(unitail.__file__).parent
    files = [path for kind in ("*.py", "*.js", "*.html") for path in package.rglob(kind)]
    levels_of = {
        path.relative_to(package).as_posix(): {int(a or b) for a, b in re.findall(said, text)}
        for path in files
        if re.search(said, text := path.read_text())
    }
    assert {
        "cli/commands/evaluate.py",
        "validity_study/report.py",
        "studio/static/dialogs.js",
    } <= set(levels_of)
    assert {name for name, levels in levels_of.items() if levels != {round(100 * LEVEL)}} == set()


def test_interval_of_equal_values_has_no_width() -> None:
    assert MeanInterval.of([2.0, 2.0, 2.0]).half_width == 0


def test_interval_format() -> None:
    interval = MeanInterval(0.5, 0.125, 20)

    assert f"{interval:.2f}" == "0.50 ± 0.12"
    assert f"{interval}" == str(interval) == "0.5000 ± 0.1250 (n=20)"


def test_interval_of_one_value_is_refused() -> None:
    message = r"an interval needs at least two values: got 1; allowed: 2 or more\. Measure more"
    with pytest.raises(UserError, match=message):
        MeanInterval.of([1.0])


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert holm([]).size == 0


@settings(deadline=None)  # the first example warms up
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_raw_and_bonferroni_in_any_order(raw: list[float]) -> None:
    order = np.random.default_rng(len(raw)).permutation(len(raw))
    adjusted = holm(raw)

    assert (adjusted >= np.array(raw)).all()
    assert (adjusted <= np.minimum(np.array(raw) * len(raw), 1) + 1e-12).all()
    assert holm(np.array(raw)[order]) == pytest.approx(adjusted[order])


def test_holm_keeps_the_family_wise_rate() -> None:
    rng = np.random.default_rng(0)
    alarms = sum(holm(rng.uniform(size=10)).min() < 0.05 for _ in range(2000))

    assert stats.binomtest(alarms, 2000, 0.05, alternative="greater").pvalue > 1e-3
    assert alarms > 50  # and is not empty caution
