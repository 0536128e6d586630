"""Each example runs as it stands, and answers well."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "least"), [("images", 0.9), ("text", 0.8), ("audio", 0.9), ("tables", 0.85)]
)
def test_the_example_runs(
    name: str,
    least: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("UNITAIL_CACHE", str(tmp_path))
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    accuracies = re.findall(r"accuracy: ([01]\.\d+) on", capsys.readouterr().out)
    assert accuracies
    assert min(map(float, accuracies)) >= least


def test_all_examples_are_short_and_tested() -> None:
    paths = sorted(EXAMPLES.glob("*.py"))
    assert [path.stem for path in paths] == ["audio", "images", "tables", "text"]
    assert all(len(path.read_text().splitlines()) < 60 for path in paths)
