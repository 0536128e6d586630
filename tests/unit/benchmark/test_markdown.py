import re

import pandas as pd

from unitail.benchmark.markdown import (
    accuracy_cell,
    best_rows,
    learner_table,
    picture_name,
    probability_cell,
    readme,
    table,
    time_cell,
)
from unitail.benchmark.run import Part
from unitail.benchmark.tables import group_frame, summary_frame


def test_a_table_is_aligned() -> None:
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"


def test_cells_say_mean_and_half_width_or_why_not(bench_parts: list[Part]) -> None:
    groups = group_frame(summary_frame(bench_parts))
    text = learner_table(groups[groups["protocol"] == "5-way 1-shot"], "group", accuracy_cell)
    lines = [line.split(" | ") for line in text.splitlines()]
    assert lines[0] == ["| learner", "images", "words |"]
    cells = {line[0].removeprefix("| "): line[1:] for line in lines[2:]}
    assert cells["first"] == ["26.7 ± 0.0", "20.0 ± 0.0 |"]
    assert cells["three"] == ["33.3 ± 0.0 (1 of 2)", "cannot |"]
    assert cells["none"] == ["cannot", "cannot |"]


def test_every_cell_says_how_many_data_sets_it_is_about(bench_parts: list[Part]) -> None:
    groups = group_frame(summary_frame(bench_parts))
    for cell in (accuracy_cell, probability_cell, time_cell):
        found = {row.learner: cell(row) for row in groups.itertuples() if row.group == "images"}
        assert found["three"].endswith(" (1 of 2)")
        assert not found["first"].endswith(")")
        assert found["none"] == "cannot"


def test_the_best_has_answered_all() -> None:
    frame = pd.DataFrame(
        {
            "learner": ["a", "b", "c", "d"],
            "group": "g",
            "outcome": ["answered", "answered", "answered", "cannot"],
            "accuracy": [0.5, 0.6, 0.9, None],
            "half_width": 0.1,
            "answered": [2, 2, 1, 0],
            "data_sets": 2,
        }
    )
    assert best_rows(frame, "group") == {("b", "g")}
    assert "| b | **60.0 ± 10.0** |" in learner_table(frame, "group", accuracy_cell, bold=True)


def test_the_text_says_what_was_done_and_what_not(bench_parts: list[Part]) -> None:
    summary = summary_frame(bench_parts)
    text = readme("Title", "unitail bench", summary, group_frame(summary), ["A note."])
    for piece in (
        "# Title\n\n```sh\nunitail bench\n```",
        "of 12 episodes for each data set",
        "- Fewer classes than asked for, all of them used: toy/cars (3).",
        "- Fewer queries of a class, for want of rows: toy/news (3), toy/news (2).",
        "- A note.",
        "![accuracy, 5-way 1-shot](accuracy-5-way-1-shot.png)",
        "| learner | toy/birds | toy/cars |",
        "## Probabilities",
        "Milliseconds for an episode",
        "| none | cannot | toy/birds, toy/news | too many classes: got 5; allowed: none.",
        "allowed: 3 / fewer.",
    ):
        assert piece in text
    assert len(re.findall(r"\*\*\d", text)) > 4


def test_pictures_have_plain_names() -> None:
    name = picture_name("5-way 1-shot, Dirichlet(0.5) queries")
    assert name == "accuracy-5-way-1-shot-Dirichlet-0-5-queries.png"
