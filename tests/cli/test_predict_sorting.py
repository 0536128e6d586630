from pathlib import Path

import pytest
import typer
from PIL import Image
from typer.testing import CliRunner, Result

from helpers.colours import MeanColour
from unitail.cli.commands.predict import predict
from unitail.errors import UserError
from unitail.inputs import encode as vectors

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


def test_a_dry_run_only_lists() -> None:
    result = _run("box", "new", "--sort-into", "out", "--dry-run")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert [line for line in lines if " -> out/" in line and line.startswith("new/x.png")]
    assert "2 files would be copied into out: " in result.output
    assert not Path("out").exists()


def test_files_are_moved_after_all_else_is_written() -> None:
    result = _run(
        "box",
        "new",
        "--sort-into",
        "out",
        "--sort-by",
        "move",
        "--report",
        "r.html",
        "--out",
        "a.csv",
    )
    assert result.exit_code == 0, result.output
    assert len(_sorted()) == 2
    assert not list(Path("new").iterdir())
    assert "2 files moved into out: " in result.output
    assert Path("r.html").read_text().count("data:image/jpeg") >= 2


def test_a_second_copy_does_nothing() -> None:
    _run("box", "new", "--sort-into", "out")
    first = _sorted()
    result = _run("box", "new", "--sort-into", "out")
    assert _sorted() == first
    assert "0 files copied into out" in result.output
    assert "2 files lay there already." in " ".join(result.output.split())


def test_mistakes_are_told_before_any_work() -> None:
    for arguments, message in (
        (("--sort-into", "new/sorted"), "which is read"),
        (("--sort-into", "out", "--sort-by", "burn"), "allowed: copy, link, move"),
        (("--dry-run",), "together with --sort-into"),
    ):
        result = _run("box", "new", *arguments)
        assert isinstance(result.exception, UserError), result.output
        assert message in str(result.exception)
