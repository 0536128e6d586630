import sys
from pathlib import Path

import pytest

from unitail.errors import MissingExtra
from unitail.training.run_log import RunLog


def test_entries_come_back_as_they_were_written(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    entries = [{"step": 1, "loss": 0.5}, {"step": 2, "validation": {"1-shot": {"accuracy": 0.1}}}]
    for entry in entries:
        log.write(entry)
    assert RunLog(tmp_path).read() == entries


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.write({"step": 1})
    with log.path.open("a") as file:
        file.write('{"step": 2, "lo')
    assert log.read() == [{"step": 1}]


def test_rewinding_forgets_what_came_later(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    for step in (1, 2, 3):
        log.write({"step": step})
    log.rewind(2)
    assert log.read() == [{"step": 1}, {"step": 2}]


def test_a_missing_tensorboard_is_named_with_its_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtra, match=r"pip install 'unitail\[tensorboard\]'"):
        RunLog(tmp_path, tensorboard=True)
