import csv
from pathlib import Path

import numpy as np
import pandas
import pytest
import typer
from typer.testing import CliRunner, Result

from unitail.cli.commands.predict import predict
from unitail.engines import chunks
from unitail.errors import InvalidConfig

app = typer.Typer()
app.command()(predict)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Write a labelled table of two classes and one to answer."""
    folder, generator = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    for name, number in (("support", 12), ("queries", 40)):
        lines = ["size,label"]
        for place in range(number):
            lines.append(f"{generator.normal(4 * (place % 2)):.4f},{'ab'[place % 2]}")
        (folder / f"{name}.csv").write_text("\n".join(lines))
    return folder / "support.csv", folder / "queries.csv"


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments), "--device", "cpu"])


def test_workers_answer_as_one_process_does(tables: tuple[Path, Path], tmp_path: Path) -> None:
    alone = _run(*tables, "--out", tmp_path / "one.csv")
    assert alone.exit_code == 0, alone.output
    options = ("--workers", 2, "--chunk-rows", 8)
    result = _run(*tables, "--out", tmp_path / "many", *options)
    assert result.exit_code == 0, result.output
    assert "table: 12 examples of 2 classes (a, b).\ntable: a stream of rows.\n" in result.stdout
    assert f"{tmp_path / 'many'}: 40 rows in 5 files; answers: " in result.stdout
    many = pandas.read_parquet(tmp_path / "many")
    with (tmp_path / "one.csv").open(newline="") as file:
        one = list(csv.DictReader(file))
    assert list(many.columns) == list(one[0])
    assert many["answer"].tolist() == [row["answer"] for row in one]
    expected = [float(row["probability"]) for row in one]
    np.testing.assert_allclose(many["probability"], expected, atol=1e-6)


def test_a_pool_is_drawn_once_and_sent_to_all(tables: tuple[Path, Path], tmp_path: Path) -> None:
    """Workers that answer from a pool, named by an address, answer as one process does."""
    alone = _run(*tables, "--pool", tables[1], "--out", tmp_path / "one.csv")
    assert alone.exit_code == 0, alone.output
    options = ("--pool", f"file://{tables[1]}", "--chunk-rows", 16)
    result = _run(*tables, "--out", tmp_path / "many", *options)
    assert result.exit_code == 0, result.output
    expected = pandas.read_csv(tmp_path / "one.csv")["probability"]
    many = pandas.read_parquet(tmp_path / "many")["probability"]
    np.testing.assert_allclose(many, expected, atol=1e-6)
    without = _run(*tables, "--out", tmp_path / "none", "--workers", 2)
    assert without.exit_code == 0
    none = pandas.read_parquet(tmp_path / "none")["probability"]
    assert np.abs(none - expected).max() > 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "o", "--joint"), "got --joint; allowed: --out FOLDER, and --pool in place"),
        (("--out", "o", "--report", "r.html"), "write them as they come: got --report"),
        ((), "a folder of Parquet files: got no --out"),
        (("--out", "answers.csv"), r"a folder of Parquet files: got --out answers\.csv"),
    ],
)
def test_what_needs_all_answers_at_once_is_refused(
    options: tuple[str, ...], message: str, tables: tuple[Path, Path]
) -> None:
    result = _run(*tables, *options, "--workers", 2)
    assert isinstance(result.exception, InvalidConfig)
    with pytest.raises(InvalidConfig, match=message):
        raise result.exception


def test_a_coverage_is_refused_before_anything_is_read(tables: tuple[Path, Path]) -> None:
    result = _run(*tables, "--out", "o", "--workers", 2, "--coverage", 1.2)
    assert "--coverage is out of range: got 1.2; allowed: a number above 0" in str(result.exception)
    assert result.output == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--engine", "foo"), "--engine is unknown: got foo"),
        (("--workers", 1, "--gpus-per-worker", 1), "are for a cluster: got --engine local"),
        (("--workers", 2, "--model", "tail"), "got --model tail with joint answers; .*the default"),
    ],
)
def test_what_workers_cannot_do_is_refused_before_anything_is_encoded(
    options: tuple[object, ...], message: str, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    result = _run(*tables, "--out", tmp_path / "o", *options)
    assert result.output == ""
    assert isinstance(result.exception, InvalidConfig)
    with pytest.raises(InvalidConfig, match=message):
        raise result.exception


def test_cells_that_later_rows_write_otherwise_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "READ_ROWS", 2)
    rows = [("2021-02-03", 1, "a"), ("2021-11-02", 2, "b"), ("2021-02-05", 1, "a")]
    lines = [f"{day},{mass},{label}" for day, mass, label in rows]
    (tmp_path / "s.csv").write_text("\n".join(["day,mass,label", *lines]))
    cells = ["2021-02-03,1", "2021-02-04,2", "13/02/2021,1", "14/02/2021,1 000", "15/02/2021,3"]
    (tmp_path / "q.csv").write_text("\n".join(["day,mass", *cells]))
    arguments = (tmp_path / "s.csv", tmp_path / "q.csv", "--out", tmp_path / "o", "--workers", 2)
    for _ in range(2):  # the second time from the reports in the folder
        result = _run(*arguments, "--chunk-rows", 1)
        assert result.exit_code == 0, result.output
        shown = " ".join(result.stdout.split())
        assert "Note: neither the examples nor the first 2 rows show whether the dates" in shown
        assert (
            "Skipped among the rows: 3 cells of 'day' without a date, 1 cell of 'mass' without a"
            " number: formats were decided by the examples and the first 2 rows."
        ) in shown


def test_something_must_be_named(tables: tuple[Path, Path]) -> None:
    result = _run(tables[0], "--out", "o", "--workers", 2)
    assert "workers have nothing to answer: got no FILES" in str(result.exception)


def test_a_launcher_is_refused(tables: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """`torchrun ... predict` would do all of the work twice."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    for more in ((), ("--workers", 2, "--out", "o")):
        result = _run(*tables, *more)
        assert "does not share its work with processes of a launcher: got 2" in str(
            result.exception
        )
        assert "`unitail predict ... --workers 2`, without torchrun" in str(result.exception)


@pytest.mark.parametrize("cells", ["size", "text"])
def test_old_answers_are_replaced(cells: str, tables: tuple[Path, Path], tmp_path: Path) -> None:
    support, answered = tables[0], tmp_path / "answered.csv"
    if cells == "text":
        support = tmp_path / "s.csv"
        support.write_text("text,label\nhow are you today,a\nwhere is my parcel now,b\n")
    assert _run(support, support, "--out", answered).exit_code == 0
    options = ("--out", tmp_path / "many", "--workers", 2)
    result = _run(support, answered, *options)
    assert result.exit_code == 0, result.exception
    with answered.open(newline="") as file:
        expected = list(csv.DictReader(file))
    many = pandas.read_parquet(tmp_path / "many")
    assert list(many.columns) == list(expected[0])
    assert many["answer"].tolist() == [row["answer"] for row in expected]
