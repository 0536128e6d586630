from pathlib import Path

import pandas as pd

from unitail.benchmark.compare import compare, read_rows
from unitail.benchmark.report import write_report
from unitail.benchmark.run import Part


def test_a_folder_of_results_has_everything(tmp_path: Path, bench_parts: list[Part]) -> None:
    out = tmp_path / "results"
    groups = write_report(out, bench_parts, title="Title", command="unitail bench")
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md",
        "accuracy-5-way-1-shot.png",
        "accuracy-5-way-2-shot.png",
        "calibration.parquet",
        "reliability.png",
        "rows.parquet",
        "summary.csv",
    ]
    assert len(groups) == 4 * 2 * 2
    summary = pd.read_csv(out / "summary.csv")
    assert len(summary) == 4 * 3 * 2
    assert summary["mib"].isna().all()
    assert len(pd.read_parquet(out / "calibration.parquet")) == 2 * (2 * 3 + 1) * 15
    found = compare(read_rows(out), "prototypes", "first")
    assert found.pairs == 2 * 3 * 12
    assert str(found).startswith("prototypes is better than first by ")


def test_a_benchmark_that_nobody_could_solve_is_reported(
    tmp_path: Path, bench_parts: list[Part]
) -> None:
    nobody = [
        Part(
            table=part.table,
            protocol=part.protocol,
            evaluations={"none": part.evaluations["none"]},
        )
        for part in bench_parts
    ]
    write_report(tmp_path, nobody, title="Title", command="unitail bench")
    assert not (tmp_path / "reliability.png").exists()
    text = (tmp_path / "README.md").read_text()
    assert "reliability.png" not in text
    assert "cannot" in text
