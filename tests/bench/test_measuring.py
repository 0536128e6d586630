import runpy
import sys
from pathlib import Path

import pytest

from helpers.scripts import ROOT


def test_commands_show_places_by_name_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    command_line = runpy.run_path(str(ROOT / "bench" / "measuring" / "page.py"))["command_line"]
    options = ["--banks", "banks", "banks/one", "X=banks", "my-banks", "more/banks", "banks2"]
    monkeypatch.setattr(sys, "argv", ["bench/latency.py", *options])
    assert command_line(BANKS=Path("banks")) == (
        "python bench/latency.py --banks BANKS BANKS/one X=BANKS my-banks more/banks banks2"
    )
