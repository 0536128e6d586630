from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from unitail.benchmark.means import DataSetMeans
from unitail.evaluation.result import Outcome
from unitail.reproduction import figures as module
from unitail.reproduction.figures import ways_curves

Make = Callable[..., DataSetMeans]
CAPTION = "net/a, 5-shot: accuracy against the number of classes"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Capture the figures; `test_plotting` checks that figures become pictures."""
    captured: list[Any] = []

    def capture(figure: Any) -> bytes:  # noqa: ANN401
        captured.append(figure)
        return b"PNG"

    monkeypatch.setattr(module, "as_png", capture)
    return captured


def test_a_curve_for_each_data_set_that_has_several_numbers_of_ways(
    row: Make, figures: list[Any]
) -> None:
    rows = [row("a", name, 0.9 - ways / 100, ways=ways) for name in "xy" for ways in (20, 5, 10)]
    assert ways_curves([*rows, row("b", "x", 0.5)]) == {CAPTION: b"PNG"}
    [axes] = figures[0].axes
    assert [line.get_label() for line in axes.get_lines()] == ["x", "y"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["x", "y"]
    for line in axes.get_lines():
        assert line.get_xdata().tolist() == [5, 10, 20]  # whatever the order of the rows
        assert line.get_ydata() == pytest.approx([85, 80, 70])


def test_the_shaded_areas_are_the_intervals(row: Make, figures: list[Any]) -> None:
    rows = [row("a", "x", 0.9 - k / 100, ways=k, half_width=k / 1000) for k in (5, 10, 20)]
    ways_curves(rows)
    [axes] = figures[0].axes
    [area], [line] = axes.collections, axes.get_lines()
    corners = area.get_paths()[0].vertices
    by_ways = {k: corners[corners[:, 0] == k, 1] for k in (5, 10, 20)}
    ends = [(heights.min(), heights.max()) for heights in by_ways.values()]
    assert np.array(ends) == pytest.approx(np.array([(84.5, 85.5), (79, 81), (68, 72)]))
    assert area.get_facecolor()[0, :3] == pytest.approx(to_rgb(line.get_color()))


def test_learners_that_did_not_answer_have_no_point(row: Make, figures: list[Any]) -> None:
    rows = [row("a", "x", 0.9, ways=ways) for ways in (5, 10)]
    refused = [row("a", "y", 0.0, ways=5, outcome=Outcome.CANNOT, reason="too many classes")]
    assert [*ways_curves([*rows, *refused])] == [CAPTION]
    assert [line.get_label() for line in figures[0].axes[0].get_lines()] == ["x"]
