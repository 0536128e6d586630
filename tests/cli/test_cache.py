from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from unitail.cli.commands import cache
from unitail.encoders.cache import FILE, FeatureCache

VECTORS = {"a": np.ones(3, np.float32), "b": np.ones(3, np.float32)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNITAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("UNITAIL_CACHE_BYTES", "5000000")
    return tmp_path / "cache"


def _run(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(cache.app, list(arguments), input=answer)


def test_info_of_a_new_cache(folder: Path) -> None:
    result = _run("info")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        f"folder:  {folder}",
        "size:    0 bytes of at most 5.0 MB",
        "vectors: 0",
    ]
    assert not folder.exists()


def test_info_counts_by_encoder(folder: Path) -> None:
    FeatureCache(folder).put_many("0123456789abcdef", VECTORS, name="Net")
    FeatureCache(folder).put_many("f2", {"a": VECTORS["a"]})
    lines = _run("info").output.splitlines()
    assert lines[2:] == ["vectors: 3", "        1  no name (f2)", "        2  Net (0123456789ab)"]


def test_problems_are_reported(folder: Path) -> None:
    (folder / FILE).mkdir(parents=True)
    result = _run("info")
    assert result.exit_code == 0
    assert f"unitail: the feature cache in {folder} cannot be used" in result.stderr


def test_clear_asks_before(folder: Path) -> None:
    FeatureCache(folder).put_many("net", VECTORS)
    refused = _run("clear", answer="n\n")
    assert refused.exit_code == 1
    assert f"Remove 2 vectors from {folder}?" in refused.output
    assert FeatureCache(folder).info().entries == 2
    assert f"Removed 2 vectors from {folder}." in _run("clear", answer="y\n").output
    assert FeatureCache(folder).info().entries == 0


def test_clear_does_not_ask_with_yes(folder: Path) -> None:
    FeatureCache(folder).put_many("net", {"a": VECTORS["a"]})
    result = _run("clear", "--yes")
    assert result.output == f"Removed 1 vector from {folder}.\n"
    assert _run("clear").output == f"Removed 0 vectors from {folder}.\n"  # nothing to ask about
