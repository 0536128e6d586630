from collections.abc import Callable
from pathlib import Path

import pytest

from unitail.benchmark.means import DataSetMeans
from unitail.benchmark.suite_file import read_suite
from unitail.evaluation.result import Outcome
from unitail.reproduction.report import build_report, cost_tables, section, versions
from unitail.reproduction.run import Measured, Reproduction


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    root: Path = tmp_path_factory.mktemp("smoke")
    work = Reproduction(
        banks=root / "none",
        runs=root,
        folder=root,
        episodes=3,
        learners=("proto_head_paper", "linear_probe_shrunk"),
        device="cpu",
    )
    return work.measure("smoke")


def test_a_section_has_tables_a_comparison_and_its_status(smoke: Measured) -> None:
    made = section(smoke)
    assert made.status == "measured: 3 data sets, 3 episodes each"
    [grid] = made.grids
    assert [line.learner for line in grid.rows[:2]] == ["ProtoHead", "Linear Probe, shrunk centre"]
    assert made.versus is not None
    anchor, header, rows = made.versus
    assert anchor == "Linear Probe, shrunk centre"  # as the tables call it
    assert header == ["learner", "protocol", "tables"]
    assert [row[0] for row in rows] == ["ProtoHead"] * 2
    assert made.todo == []


def test_what_is_missing_comes_with_commands() -> None:
    suite = read_suite("paper_cross_modal")
    skipped = Measured(
        suite=suite, skipped="no data", missing=suite.patterns(), absent=["gpicl", "tail"]
    )
    made = section(skipped)
    assert made.status == "skipped: no data"
    assert made.todo[0].startswith("unitail data prepare imdb --root ROOT --encoder distilbert")
    assert made.todo[2].startswith("unitail train RECIPE --banks BANKS --out RUNS/gpicl ")
    [grid] = made.grids
    assert grid.rows[0].cells[0].paper == "89.33 (0.44)"


def test_the_whole_names_commands_versions_and_hashes(smoke: Measured) -> None:
    report = build_report([smoke], command="unitail reproduce --suite smoke", swapped=["a=b"])
    assert len(report.sections) == 1  # no experiment of the paper was asked for
    assert "a=b" in report.notes[0]
    bench = (
        "unitail bench --suite smoke --banks BANKS --runs RUNS --encoder a=b --episodes 3 --seed 0"
    )
    assert report.commands[1] == bench
    some = build_report([smoke], command="c", swapped=["a=b"], learners=["tail", "unitail"])
    assert some.commands[1] == f"{bench} --learner tail --learner unitail"
    facts = dict(versions([smoke]))
    assert {"unitail", "Python", "torch", "machine", "device"} <= set(facts)
    digits = next(each for each in smoke.results if each.table.bank.name == "digits")
    hash_ = digits.table.bank.manifest.features_sha256
    assert facts["bank scikit-learn/digits"] == hash_[:12]
    paper = build_report([Measured(suite=read_suite("paper_in_domain"), skipped="x")], command="c")
    titles = [each.title for each in paper.sections]
    assert titles == ["In-domain image classification", "What this command does not train"]


def test_an_ablation_that_is_not_trained_names_its_recipe() -> None:
    suite = read_suite("paper_ablations")
    made = section(Measured(suite=suite, skipped="no runs", absent=["dense"]))
    assert made.todo == [
        "unitail train recipes/ablations/dense.toml --banks BANKS --out RUNS/dense"
    ]
    rows = [[line.learner for line in grid.rows] for grid in made.grids]
    assert [len(each) for each in rows] == [3, 3, 2]
    assert rows[1][-1] == "TAIL, queries by themselves (ours)"
    assert made.grids[1].rows[0].cells[0].paper == "98.81 (0.06)"


def test_time_is_tabulated_where_classes_become_more(row: Callable[..., DataSetMeans]) -> None:
    rows = [row("a", "tail", 0.9, ways=ways, ms=ways / 4) for ways in (20, 5)]
    rows += [row("a", "snail", 0.9, ways=5, ms=2.0), row("b", "tail", 0.9, ms=1.0)]
    rows.append(row("a", "snail", 0.0, ways=20, outcome=Outcome.CANNOT))
    [table] = cost_tables(rows)
    assert table.title.startswith("net/a, 5-shot: time of 1,000 test episodes, s")
    assert table.header == ["method", "5 classes", "20 classes"]
    assert table.rows == [["TAIL", "1.2", "5.0"], ["SNAIL", "2.0", "-"]]
