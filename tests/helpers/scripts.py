"""Scripts of bench/ and tools/, run as a user would but without a new interpreter."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_script(path: str, *arguments: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the script at this path of the repository with these arguments."""
    monkeypatch.setattr(sys, "argv", [path, *map(str, arguments)])
    monkeypatch.syspath_prepend(str((ROOT / path).parent))
    runpy.run_path(str(ROOT / path), run_name="__main__")
