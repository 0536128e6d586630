"""The README's examples run as they stand."""

import re
from pathlib import Path

import pytest

from helpers.known_learners import write_blobs

README = (Path(__file__).parents[2] / "README.md").read_text()
TEXTS, FIVE_LINES, VALIDITY, EVALUATION = re.findall(
    r"```python\n(.*?)```", README, flags=re.DOTALL
)


def test_texts_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UNITAIL_CACHE", str(tmp_path))
    exec(TEXTS, {})
    assert capsys.readouterr().out == "['card' 'weather']\n"


def test_the_five_lines_run(capsys: pytest.CaptureFixture[str]) -> None:
    exec(FIVE_LINES, {})
    found = re.match(r"accuracy: (0\.\d+)", capsys.readouterr().out)
    assert found is not None
    assert float(found[1]) > 0.8
    assert len([line for line in FIVE_LINES.splitlines() if line]) == 5


def test_the_validity_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(VALIDITY, {})
    assert "gaussian: " in capsys.readouterr().out


def test_the_evaluation_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_blobs(tmp_path / "banks", "cub200", encoder="efflite0")
    monkeypatch.chdir(tmp_path)
    exec(EVALUATION, {})
    lines = capsys.readouterr().out.splitlines()
    start = r"efflite0/cub200, 5-way 1-shot: accuracy 0\.\d+ ± 0\.\d+ \(n=600\), nll"
    assert [
        bool(re.match(rf"{name} {start}", line))
        for name, line in zip(("prototypes", "probe"), lines, strict=True)
    ] == [True, True]
