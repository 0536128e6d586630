import csv
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from PIL import Image
from typer.testing import CliRunner, Result

from helpers.colours import MeanColour
from unitail.cli import sorting
from unitail.cli.commands.predict import predict
from unitail.errors import UserError
from unitail.inputs import encode as vectors
from unitail.workflows.sort_files import Step

app = typer.Typer()
app.command()(predict)


@pytest.fixture(autouse=True)
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(vectors, "make_encoder", lambda *_, **__: MeanColour())
    for name, colour in (("red", (220, 0, 0)), ("blue", (0, 0, 220))):
        for each in range(4):
            _paint(f"box/{name}/{each}.png", tuple(value + each for value in colour))
    _paint("new/x.png", (221, 1, 1))
    _paint("new/y.png", (1, 2, 221))


def _paint(path: str, colour: tuple[int, ...]) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), colour).save(path)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--no-cache"])


def _sorted() -> list[str]:
    return sorted(str(path) for path in Path("out").rglob("*.png"))


def _column(path: str, name: str) -> list[str]:
    return [row[name] for row in csv.DictReader(Path(path).read_text().splitlines())]


def test_a_dry_run_only_lists() -> None:
    result = _run("box", "new", "--sort-into", "out", "--dry-run")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert [line for line in lines if " -> out/" in line and line.startswith("new/x.png")]
    assert "2 files would be copied into out: " in result.output
    assert not Path("out").exists()


def test_answers_and_report_find_files_where_they_were_moved() -> None:
    targets = ("--report", "r.html", "--out", "a.csv")
    result = _run("box", "new", "--sort-into", "out", "--sort-by", "move", *targets)
    assert result.exit_code == 0, result.output
    assert len(_sorted()) == 2
    assert not list(Path("new").iterdir())
    assert "2 files moved into out: blue (1), red (1)." in result.output
    page = Path("r.html").read_text()
    assert page.count("data:image/jpeg") >= 2
    links = re.findall(r'<a href="(out/[^"]*)">', page)
    assert sorted(links) == _sorted()
    assert sorted(_column("a.csv", "file")) == _sorted()
    Path("a.csv").write_text(Path("a.csv").read_text().replace(".png,,", ".png,green,"))
    again = _run("box", "out", "--also", "a.csv")
    assert "10 examples of 3 classes (blue, green, red)" in again.output


def test_paths_in_a_table_stay_as_they_are() -> None:
    Path("new.csv").write_text("photo\nnew/x.png\nnew/y.png\n")
    _run("box", "new.csv", "--sort-into", "out", "--sort-by", "move", "--out", "a.csv")
    assert len(_sorted()) == 2
    assert _column("a.csv", "photo") == ["new/x.png", "new/y.png"]


def test_answers_are_written_although_a_file_has_vanished(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was there when it was answered."""
    whole = sorting.plan_sorting

    def plan(*arguments: Any) -> list[Step]:  # noqa: ANN401
        steps = whole(*arguments)
        Path("new/x.png").unlink()
        return steps

    monkeypatch.setattr(sorting, "plan_sorting", plan)
    result = _run("box", "new", "--sort-into", "out", "--sort-by", "move", "--out", "a.csv")
    assert result.exit_code == 1
    assert "new/x.png: has vanished, and was not sorted" in result.output
    assert len(_sorted()) == 1
    assert sorted(_column("a.csv", "file")) == ["new/x.png", *_sorted()]


def test_a_second_copy_does_nothing() -> None:
    _run("box", "new", "--sort-into", "out")
    first = _sorted()
    result = _run("box", "new", "--sort-into", "out")
    assert _sorted() == first
    assert "0 files copied into out" in result.output
    assert "2 files were there already." in " ".join(result.output.split())


def test_mistakes_are_reported_before_any_work() -> None:
    for arguments, message in (
        (("--sort-into", "new/sorted"), "which is read"),
        (("--sort-into", "out", "--sort-by", "burn"), "allowed: copy, link, move"),
        (("--dry-run",), "together with --sort-into"),
    ):
        result = _run("box", "new", *arguments)
        assert isinstance(result.exception, UserError), result.output
        assert message in str(result.exception)
