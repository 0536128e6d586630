from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from unitail.framework.curves import LearningCurve
from unitail.framework.rises import RiseFinding, find_rises


def _curve(risks: NDArray[np.float64]) -> LearningCurve:
    shots = tuple(range(1, len(risks) + 1))
    return LearningCurve(task="t", ways=2, shots=shots, risks=risks, bayes_risk=None)


def _find(*risks: NDArray[np.float64], level: float = 0.05) -> RiseFinding:
    return find_rises([_curve(each) for each in risks], level)[0]


def _errors(
    rng: np.random.Generator, risks: list[float], draws: int = 60, queries: int = 30
) -> NDArray[np.float64]:
    """Draw 0-1 risks as a learner with these true risks would show them."""
    return rng.binomial(queries, np.array(risks)[:, None], size=(len(risks), draws)) / queries


def test_two_sizes_are_compared_by_welch() -> None:
    risks = np.random.default_rng(0).normal([[0.3], [0.34]], [[0.05], [0.1]], size=(2, 50))
    (rise,) = _find(risks).rises
    expected = stats.ttest_ind(risks[1], risks[0], equal_var=False, alternative="greater")

    assert rise.p_value == pytest.approx(expected.pvalue)
    assert rise.amount == pytest.approx(risks[1].mean() - risks[0].mean())
    assert (rise.smaller, rise.larger) == (2, 4)
    interval = expected.confidence_interval(0.95)
    low = stats.ttest_ind(risks[1], risks[0], equal_var=False, alternative="less")
    assert interval.low > 0
    assert _find(risks).largest_rise == pytest.approx(low.confidence_interval(0.95).high)


def test_a_fall_is_not_a_rise_and_can_be_certain() -> None:
    finding = _find(_errors(np.random.default_rng(0), [0.5, 0.3, 0.1]))

    assert finding.rises == ()
    assert finding.largest_rise < 0


@pytest.mark.parametrize("risk", [0.3, 0.01])
def test_flat_curves_raise_few_alarms(risk: float) -> None:
    """The family-wise rate, also where most risks are zero and far from normal."""
    rng = np.random.default_rng(1)
    alarms = sum(bool(_find(_errors(rng, [risk] * 5)).rises) for _ in range(200))

    assert alarms <= stats.binom.ppf(0.999, 200, 0.05)


def test_flat_curves_of_many_tasks_raise_few_alarms() -> None:
    rng = np.random.default_rng(2)
    families = [[_curve(_errors(rng, [0.3] * 4)) for _ in range(5)] for _ in range(200)]
    alarms = sum(any(finding.rises for finding in find_rises(each, 0.05)) for each in families)

    assert alarms <= stats.binom.ppf(0.999, 200, 0.05)


def test_slow_drift_is_found_though_no_neighbours_differ() -> None:
    risks = _errors(np.random.default_rng(3), list(np.linspace(0.3, 0.36, 9)))
    steps = [
        stats.ttest_ind(after, before, equal_var=False, alternative="greater").pvalue
        for before, after in pairwise(risks)
    ]

    assert min(steps) > 0.05 / len(steps)  # neighbours alone would have missed it
    rise = _find(risks).rises[0]
    assert rise.larger - rise.smaller > 8


def test_the_correction_is_over_all_curves() -> None:
    rng = np.random.default_rng(4)
    noise = stats.zscore(rng.normal(size=60))
    rising = 0.3 + 0.1 * np.stack([noise, noise + 2.2 * np.sqrt(2 / 60)])  # t is about 2.2
    flat = [_errors(rng, [0.5, 0.3]) for _ in range(19)]
    (alone,) = _find(rising).rises

    assert 0.05 / 20 < alone.p_value < 0.05
    assert _find(rising, *flat).rises == ()
    assert _find(rising, *flat).largest_rise > _find(rising).largest_rise


def test_the_largest_rise_is_a_bound_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    bounds = [_find(_errors(rng, [0.3, 0.3, 0.35])).largest_rise for _ in range(200)]

    assert sum(bound < 0.05 for bound in bounds) <= stats.binom.ppf(0.999, 200, 0.05)
    assert np.mean(bounds) < 0.12


def test_more_draws_leave_smaller_rises_possible() -> None:
    rng = np.random.default_rng(6)
    few, many = (_find(_errors(rng, [0.3] * 3, draws)).largest_rise for draws in (20, 2000))

    assert 0 < many < few / 4


@pytest.mark.parametrize(
    ("later", "rises", "largest"), [(0.3, 1, 0.1), (0.2, 0, 0.0), (0.1, 0, -0.1)]
)
def test_risks_that_do_not_vary_leave_no_doubt(later: float, rises: int, largest: float) -> None:
    finding = _find(np.repeat([[0.2], [later]], 30, axis=1))

    assert [rise.p_value for rise in finding.rises] == [0] * rises
    assert finding.largest_rise == pytest.approx(largest)


def test_zero_risks_are_equal() -> None:
    assert _find(np.zeros((3, 10))).rises == ()


def test_one_risk_that_varies_is_enough_for_a_test() -> None:
    varying = np.random.default_rng(0).normal(0.3, 0.1, size=40)
    finding = _find(np.stack([np.full(40, 0.2), varying]))

    expected = stats.ttest_1samp(varying, 0.2, alternative="greater")
    assert finding.rises[0].p_value == pytest.approx(expected.pvalue)


def test_rounding_is_no_rise() -> None:
    risks = 0.7 * (1 + 1e-8 * np.arange(60.0).reshape(3, 20))

    assert _find(risks).rises == ()


def test_no_curves_no_findings() -> None:
    assert find_rises([], 0.05) == []


def test_rise_in_words() -> None:
    (rise,) = _find(np.repeat([[0.2], [0.3]], 30, axis=1)).rises

    assert str(rise) == "0.1000 from n=2 to n=4 (adjusted p=0)"
