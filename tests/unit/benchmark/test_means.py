from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unitail.benchmark.means import (
    GroupMeans,
    calibration_table,
    data_set_means,
    episode_table,
    group_means,
    pooled_calibration,
    read_summary,
    summary_text,
)
from unitail.benchmark.store import TableResult
from unitail.evaluation.result import Outcome


def test_there_is_a_row_for_each_episode_and_learner_that_answered(
    bench_results: list[TableResult],
) -> None:
    table = episode_table(bench_results)
    rows = table.to_pandas()
    assert len(rows) == 2 * (2 * 3 + 1) * 12
    assert set(rows["learner"]) == {"prototypes", "first", "three"}
    one = rows[(rows["learner"] == "first") & (rows["data_set"] == "cars") & (rows["shots"] == 1)]
    result = next(each for each in bench_results if each.table.name == "toy/cars")
    scores = result.evaluations["first"].scores
    assert one["hash"].tolist() == scores.hashes.tolist()
    assert one["accuracy"].tolist() == scores.accuracy.tolist()
    assert one["episode"].tolist() == list(range(12))
    assert one["ways"].unique().tolist() == [3]
    assert one["protocol"].unique().tolist() == ["5-way 1-shot"]
    types = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert types["learner"].startswith("dictionary<")
    assert types["hash"] == "uint64"
    assert {types[name] for name in ("accuracy", "nll", "brier", "seconds", "memory")} == {"float"}


def test_no_answers_are_no_rows(
    bench_results: list[TableResult], nobody_answered: list[TableResult]
) -> None:
    assert episode_table(nobody_answered).num_rows == 0
    names = episode_table(bench_results).column_names
    assert episode_table(nobody_answered).column_names == names
    assert calibration_table(nobody_answered).num_rows == 0
    assert pooled_calibration(nobody_answered) == {}
    rows = group_means(data_set_means(nobody_answered))
    assert {row.outcome for row in rows} == {Outcome.CANNOT}


def test_every_learner_is_summed_up_on_every_data_set(bench_results: list[TableResult]) -> None:
    rows = data_set_means(bench_results)
    assert len(rows) == 4 * 3 * 2
    evaluation = bench_results[0].evaluations["prototypes"]
    first = rows[0]
    assert (first.learner, first.name) == ("prototypes", "toy/birds")
    assert first.accuracy == evaluation.accuracy.mean
    assert first.half_width == evaluation.accuracy.half_width
    assert (first.nll, first.brier) == (evaluation.nll.mean, evaluation.brier.mean)
    assert (first.ece, first.ms) == (evaluation.calibration.error, evaluation.milliseconds)
    assert first.episodes == 12
    none = [row for row in rows if row.learner == "none"]
    assert {row.outcome for row in none} == {Outcome.CANNOT}
    assert np.isnan([row.accuracy for row in none]).all()
    assert all(row.reason.startswith("too many classes") for row in none)


def test_the_summary_is_read_as_it_was_written(
    bench_results: list[TableResult], tmp_path: Path
) -> None:
    rows = data_set_means(bench_results)
    path = tmp_path / "summary.csv"
    path.write_text(summary_text(rows))
    header, first = path.read_text().splitlines()[:2]
    assert header.startswith("learner,group,encoder,data_set,protocol,ways,shots,queries,shares,")
    assert header.endswith(",accuracy,half_width,episodes,nll,brier,ece,ms,mib,mark")
    assert first.startswith("prototypes,images,toy,birds,5-way 1-shot,5,1,5,balanced,answered,,cpu")
    read = read_summary(path)
    assert [row.outcome for row in read] == [row.outcome for row in rows]
    assert [row.accuracy for row in read] == pytest.approx(
        [row.accuracy for row in rows], rel=1e-5, nan_ok=True
    )
    assert summary_text(read) == path.read_text()


def _group(rows: list[GroupMeans], group: str, learner: str) -> GroupMeans:
    [row] = [
        each
        for each in rows
        if (each.protocol, each.group, each.learner) == ("5-way 1-shot", group, learner)
    ]
    return row


def test_a_group_is_the_mean_of_its_data_sets(bench_results: list[TableResult]) -> None:
    rows = data_set_means(bench_results)
    groups = group_means(rows)
    own = [
        row for row in rows if (row.learner, row.group, row.shots) == ("prototypes", "images", 1)
    ]
    row = _group(groups, "images", "prototypes")
    for name in ("accuracy", "nll", "brier", "ece", "ms"):
        expected = np.mean([getattr(each, name) for each in own])
        assert getattr(row, name) == pytest.approx(expected)
    assert row.half_width == pytest.approx(np.hypot(*(each.half_width for each in own)) / 2)
    assert (row.answered, row.data_sets) == (2, 2)
    partly = _group(groups, "images", "three")
    assert (partly.answered, partly.data_sets, partly.outcome) == (1, 2, Outcome.ANSWERED)
    never = _group(groups, "words", "none")
    assert (never.answered, never.outcome) == (0, Outcome.CANNOT)


def test_groups_keep_the_order_in_which_they_came(bench_results: list[TableResult]) -> None:
    rows = [
        replace(row, group=f"{5 - row.shots} {row.group}") for row in data_set_means(bench_results)
    ]
    names = list(dict.fromkeys(row.group for row in group_means(rows)))
    assert names == list(dict.fromkeys(row.group for row in rows))


def test_the_bins_add_up_to_all_answers(bench_results: list[TableResult]) -> None:
    bins = calibration_table(bench_results).to_pandas()
    own = bins[(bins["learner"] == "first") & (bins["data_set"] == "birds") & (bins["shots"] == 1)]
    assert own["counts"].sum() == 12 * 5 * 5
    assert own["correct"].sum() == 12 * 5
    pooled = pooled_calibration(bench_results)
    assert list(pooled) == ["prototypes", "first", "three"]
    everything = bins[(bins["learner"] == "first") & (bins["protocol"] == "5-way 1-shot")]
    assert pooled["first"]["5-way 1-shot"].counts.sum() == everything["counts"].sum()
