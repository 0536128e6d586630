import math
import re
import sys
from pathlib import Path

import pandas as pd
import pytest

from unitail.benchmark.compare import compare, read_rows
from unitail.benchmark.means import GroupMeans, data_set_means, group_means
from unitail.benchmark.report import (
    accuracy_cell,
    learner_table,
    picture_name,
    probability_cell,
    readme,
    require_report_packages,
    time_cell,
    write_benchmark_report,
)
from unitail.benchmark.store import TableResult
from unitail.errors import UserError
from unitail.evaluation.result import Outcome


def test_a_folder_of_results_has_everything(
    tmp_path: Path, bench_results: list[TableResult]
) -> None:
    out = tmp_path / "results"
    groups = write_benchmark_report(out, bench_results, title="Title", command="unitail bench")
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md",
        "accuracy-5-way-1-shot.png",
        "accuracy-5-way-2-shot.png",
        "calibration.parquet",
        "reliability.png",
        "rows.parquet",
        "summary.csv",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in out.glob("*.png"))
    assert len(groups) == 4 * 2 * 2
    assert "## Against" not in (out / "README.md").read_text()
    write_benchmark_report(out, bench_results, title="T", command="c", against="first")
    text = (out / "README.md").read_text()
    assert text.index("## Groups") < text.index("## Against first") < text.index("## Data sets")
    summary = pd.read_csv(out / "summary.csv")
    assert len(summary) == 4 * 3 * 2
    assert summary["mib"].isna().all()
    assert len(pd.read_parquet(out / "calibration.parquet")) == 2 * (2 * 3 + 1) * 15
    comparison = compare(read_rows(out), "prototypes", "first")
    assert comparison.pairs == 2 * 3 * 12
    assert str(comparison).startswith("prototypes is better than first by ")


def test_a_benchmark_that_nobody_could_solve_is_reported(
    tmp_path: Path, nobody_answered: list[TableResult]
) -> None:
    write_benchmark_report(tmp_path, nobody_answered, title="Title", command="unitail bench")
    assert not (tmp_path / "reliability.png").exists()
    text = (tmp_path / "README.md").read_text()
    assert "reliability.png" not in text
    assert "cannot" in text


@pytest.mark.parametrize("name", ["pyarrow", "matplotlib"])
def test_a_missing_package_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_report_packages()
    for module in [each for each in sys.modules if each.split(".")[0] == name]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"{name} is not installed.*'unitail\[report\]'"):
        require_report_packages()


def test_cells_say_mean_and_half_width_or_why_not(bench_results: list[TableResult]) -> None:
    groups = group_means(data_set_means(bench_results))
    own = [row for row in groups if row.protocol == "5-way 1-shot"]
    text = learner_table(own, lambda row: row.group, accuracy_cell)
    lines = [line.split(" | ") for line in text.splitlines()]
    assert lines[0] == ["| learner", "images", "words |"]
    cells = {line[0].removeprefix("| "): line[1:] for line in lines[2:]}
    assert cells["first"] == ["26.7 ± 0.0", "20.0 ± 0.0 |"]
    assert cells["three"] == ["33.3 ± 0.0 (1 of 2)", "cannot |"]
    assert cells["none"] == ["cannot", "cannot |"]


def test_every_cell_says_how_many_data_sets_it_is_about(bench_results: list[TableResult]) -> None:
    groups = group_means(data_set_means(bench_results))
    for cell in (accuracy_cell, probability_cell, time_cell):
        cells = {row.learner: cell(row) for row in groups if row.group == "images"}
        assert cells["three"].endswith(" (1 of 2)")
        assert not cells["first"].endswith(")")
        assert cells["none"] == "cannot"


def test_the_best_has_answered_all() -> None:
    def row(learner: str, accuracy: float, answered: int) -> GroupMeans:
        return GroupMeans(
            learner=learner,
            group="g",
            protocol="p",
            outcome=Outcome.ANSWERED if answered else Outcome.CANNOT,
            accuracy=accuracy,
            half_width=0.1,
            answered=answered,
            data_sets=2,
        )

    rows = [row("a", 0.5, 2), row("b", 0.6, 2), row("c", 0.9, 1), row("d", math.nan, 0)]
    text = learner_table(rows, lambda row: row.group, accuracy_cell, bold=True)
    assert [line for line in text.splitlines() if "**" in line] == ["| b | **60.0 ± 10.0** |"]


def test_the_text_says_what_was_done_and_what_not(bench_results: list[TableResult]) -> None:
    rows = data_set_means(bench_results)
    text = readme("Title", "unitail bench", rows, group_means(rows), ["A note."])
    for piece in (
        "# Title\n\n```sh\nunitail bench\n```",
        "of 12 episodes for each data set",
        "- Fewer classes than requested; all are used: toy/cars (3).",
        "- Fewer queries per class, as there are too few rows: toy/news (3), toy/news (2).",
        "- A note.",
        "![accuracy, 5-way 1-shot](accuracy-5-way-1-shot.png)",
        "| learner | toy/birds, 5-way | toy/cars, 3-way |",
        "| learner | images, 3 to 5-way | words, 5-way |",
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
