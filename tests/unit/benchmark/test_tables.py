import numpy as np
import pytest

from unitail.benchmark.run import Part
from unitail.benchmark.tables import calibration_frame, group_frame, rows_table, summary_frame


def test_there_is_a_row_for_each_episode_and_learner_that_answered(bench_parts: list[Part]) -> None:
    table = rows_table(bench_parts)
    rows = table.to_pandas()
    assert len(rows) == 2 * (2 * 3 + 1) * 12
    assert set(rows["learner"]) == {"prototypes", "first", "three"}
    one = rows[(rows["learner"] == "first") & (rows["data_set"] == "cars") & (rows["shots"] == 1)]
    part = next(each for each in bench_parts if each.table.name == "toy/cars")
    scores = part.evaluations["first"].scores
    assert one["hash"].tolist() == scores.hashes.tolist()
    assert one["accuracy"].tolist() == scores.accuracy.tolist()
    assert one["episode"].tolist() == list(range(12))
    assert one["ways"].unique().tolist() == [3]
    assert one["protocol"].unique().tolist() == ["5-way 1-shot"]
    types = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert types["learner"].startswith("dictionary<")
    assert types["hash"] == "uint64"
    assert {types[name] for name in ("accuracy", "nll", "brier", "seconds", "memory")} == {"float"}


def test_no_answers_are_no_rows(bench_parts: list[Part]) -> None:
    alone = [
        Part(
            table=part.table,
            protocol=part.protocol,
            evaluations={"none": part.evaluations["none"]},
        )
        for part in bench_parts
    ]
    assert rows_table(alone).num_rows == 0
    assert rows_table(alone).column_names == rows_table(bench_parts).column_names
    assert len(calibration_frame(alone)) == 0
    assert group_frame(summary_frame(alone))["outcome"].unique().tolist() == ["cannot"]


def test_the_summary_has_every_learner_on_every_data_set(bench_parts: list[Part]) -> None:
    summary = summary_frame(bench_parts)
    assert len(summary) == 4 * 3 * 2
    found = bench_parts[0].evaluations["prototypes"]
    first = summary.iloc[0]
    assert (first["learner"], first["data_set"]) == ("prototypes", "birds")
    assert first["accuracy"] == found.accuracy.mean
    assert first["half_width"] == found.accuracy.half_width
    assert first["ece"] == found.calibration.error
    assert first["episodes"] == 12
    none = summary[summary["learner"] == "none"]
    assert none["outcome"].unique().tolist() == ["cannot"]
    assert none["accuracy"].isna().all()
    assert none["reason"].str.startswith("too many classes").all()


def test_a_group_is_the_mean_of_its_data_sets(bench_parts: list[Part]) -> None:
    summary = summary_frame(bench_parts)
    groups = group_frame(summary).set_index(["protocol", "group", "learner"])
    own = summary[(summary["learner"] == "prototypes") & (summary["group"] == "images")]
    own = own[own["shots"] == 1]
    row = groups.loc[("5-way 1-shot", "images", "prototypes")]
    assert row["accuracy"] == pytest.approx(own["accuracy"].mean())
    assert row["half_width"] == pytest.approx(np.hypot(*own["half_width"]) / 2)
    assert (row["answered"], row["data_sets"]) == (2, 2)
    partly = groups.loc[("5-way 1-shot", "images", "three")]
    assert (partly["answered"], partly["data_sets"], partly["outcome"]) == (1, 2, "answered")
    never = groups.loc[("5-way 1-shot", "words", "none")]
    assert (never["answered"], never["outcome"]) == (0, "cannot")


def test_the_bins_add_up_to_all_answers(bench_parts: list[Part]) -> None:
    bins = calibration_frame(bench_parts)
    own = bins[(bins["learner"] == "first") & (bins["data_set"] == "birds") & (bins["shots"] == 1)]
    assert own["counts"].sum() == 12 * 5 * 5
    assert own["correct"].sum() == 12 * 5
