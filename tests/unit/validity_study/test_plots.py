from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from unitail.framework.validity import ValidityReport
from unitail.validity_study import plots
from unitail.validity_study.plots import COLOURS, SIGNS, plot_curves, plot_verdicts
from unitail.validity_study.study import ValidityStudy, Verdict


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Capture the figures; `test_plotting` checks that figures become pictures."""
    captured: list[Any] = []
    monkeypatch.setattr(plots, "as_png", lambda figure, dpi: captured.append(figure))
    return captured


def curves(study: ValidityStudy, number: int) -> list[ValidityReport]:
    """Return what was measured on a task, without the learners that refused it."""
    outcomes = [report.outcomes[number] for report in study.reports.values()]
    return [outcome for outcome in outcomes if isinstance(outcome, ValidityReport)]


def test_every_verdict_has_a_colour_and_a_sign() -> None:
    assert set(COLOURS) == set(SIGNS) == set(Verdict)
    assert len({*COLOURS.values()}) == len({*SIGNS.values()}) == len(Verdict)


def test_each_learner_and_task_has_a_field_with_its_verdict(
    study: ValidityStudy, figures: list[Any]
) -> None:
    plot_verdicts(study)
    [axes] = figures[0].axes
    learners, tasks = [*study.reports], [each.task.name for each in study.tasks]
    assert [label.get_text() for label in axes.get_xticklabels()] == learners
    assert [label.get_text() for label in axes.get_yticklabels()] == ["narrow: easy", "wide: wide"]
    fields = {(int(each.get_x()), int(each.get_y())): each for each in axes.patches}
    signs = {tuple(int(x) for x in each.get_position()): each.get_text() for each in axes.texts}
    assert len(axes.patches) == len(axes.texts) == len(learners) * len(tasks)
    for column, learner in enumerate(learners):
        for row, verdict in enumerate(study.verdicts(learner).values()):
            expected = to_rgba(COLOURS[verdict])
            assert fields[column, row].get_facecolor() == expected
            assert signs[column, row] == SIGNS[verdict]
    assert axes.get_xlim() == (0, len(learners))
    assert axes.get_ylim() == (len(tasks), 0)  # the first task is at the top
    legend = [text.get_text() for text in figures[0].legends[0].get_texts()]
    assert legend == [f"{SIGNS[each]}  {each}" for each in Verdict]


def test_each_panel_has_the_risks_of_a_task_with_their_intervals(
    study: ValidityStudy, figures: list[Any]
) -> None:
    plot_curves(study)
    assert [axes.get_title() for axes in figures[0].axes] == ["easy", "wide"]
    assert [len(axes.containers) for axes in figures[0].axes] == [4, 3]  # "narrow" refuses one
    for number, axes in enumerate(figures[0].axes):
        for bars, report in zip(axes.containers, curves(study, number), strict=True):
            line, _, [spans] = bars
            risks = report.curve.risk()
            assert line.get_xdata().tolist() == list(report.curve.sizes)
            assert line.get_ydata() == pytest.approx([risk.mean for risk in risks])
            heights = [np.ptp(each[:, 1]) / 2 for each in spans.get_segments()]
            assert heights == pytest.approx([risk.half_width for risk in risks])
        assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "10", "40"]


def test_each_panel_shows_chance_and_the_bayes_risk_where_it_is_known(
    study: ValidityStudy, figures: list[Any]
) -> None:
    plot_curves(study)
    for axes, each in zip(figures[0].axes, study.tasks, strict=True):
        levels = {
            line.get_linestyle(): line.get_ydata()[0]
            for line in axes.get_lines()
            if line.get_color() in ("black", "grey") and len(line.get_ydata())
        }
        assert levels == {"--": pytest.approx(each.task.bayes_risk), ":": 0.5}


def test_the_legend_names_learners_in_the_colours_of_their_curves(
    study: ValidityStudy, figures: list[Any]
) -> None:
    plot_curves(study)
    handles = figures[0].legends[0].legend_handles
    assert [each.get_label() for each in handles] == [*study.reports, "Bayes risk"]
    drawn = [bars[0].get_color() for bars in figures[0].axes[0].containers]
    assert [each.get_color() for each in handles] == [*drawn, "black"]
