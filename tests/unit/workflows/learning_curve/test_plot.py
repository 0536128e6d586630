import sys

import pytest

from helpers.pictures import coloured, pixels
from unitail.errors import MissingExtra
from unitail.workflows.learning_curve.interval import Estimate
from unitail.workflows.learning_curve.plot import plot_curve
from unitail.workflows.learning_curve.report import Line


def _lines(name: str, *accuracies: float) -> list[Line]:
    """Measure a learner at 1, 10, ... examples."""
    return [
        Line("random splits", 10**place, 9, name, Estimate(each, each - 0.1, each + 0.05), 0.1)
        for place, each in enumerate(accuracies)
    ]


def test_each_learner_has_its_line_and_the_better_one_is_above() -> None:
    picture = plot_curve([*_lines("weak", 0.3, 0.4), *_lines("strong", 0.7, 0.8)], "toy")
    assert pixels(picture).shape == (572, 910, 3)
    weak, strong = coloured(picture, "C0"), coloured(picture, "C1")
    wide = 400  # the line crosses the plot; the legend's is shorter
    assert min(len(set(weak[:, 1])), len(set(strong[:, 1]))) > wide
    left = 300  # of the legend
    assert weak[weak[:, 1] < left][:, 0].min() > strong[strong[:, 1] < left][:, 0].max()
    assert len(coloured(picture, "C2")) == 0


def test_accuracy_rises_to_the_top() -> None:
    line = coloured(plot_curve(_lines("a", 0.1, 0.5, 0.9), "toy"), "C0")
    upper = line[line[:, 0] < 400]  # above the legend
    assert upper[upper[:, 1].argmax(), 0] < upper[upper[:, 1].argmin(), 0]


def test_a_forecast_is_hollow_and_a_curve_without_points_is_empty() -> None:
    measured = _lines("a", 0.5, 0.6)
    forecast = Line("forecast", 100, 0, "a", Estimate(0.7, 0.6, 0.75), None)
    filled = plot_curve([*measured, *_lines("a", 0.5, 0.6, 0.7)[2:]], "toy")
    hollow = plot_curve([*measured, forecast], "toy")
    more, fewer = len(coloured(filled, "C0")), len(coloured(hollow, "C0"))
    assert len(coloured(plot_curve(measured, "toy"), "C0")) > 0
    assert 0 < fewer < more
    assert len(coloured(plot_curve([], "toy"), "C0")) == 0


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"pip install 'unitail\[report\]'"):
        plot_curve([], "toy")
