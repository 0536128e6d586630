import re
import sys
import tomllib
from pathlib import Path

import pytest

import unitail
from unitail.learners import pretrained
from unitail.workflows import installation

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_extras_are_those_of_the_package() -> None:
    stated = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    names = {
        extra: {re.split(r"[\[><=]", each)[0] for each in packages} - {"unitail"}
        for extra, packages in stated.items()
        if extra not in ("dev", "docs")
    }
    assert {extra: set(packages) for extra, packages in installation.EXTRAS.items()} == names


def test_a_missing_package_of_an_extra_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "EXTRAS", {"odd": ("numpy", "no-such-package")})
    (extra,) = installation.extras()
    assert extra.packages["no-such-package"] is None
    assert extra.packages["numpy"]


def test_versions_are_reported() -> None:
    versions = installation.versions()
    assert versions["unitail"] == unitail.__version__
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "missing" not in versions.values()


def test_the_shipped_weights_are_described() -> None:
    weights = installation.shipped_weights("default")
    assert isinstance(weights, installation.ShippedWeights)
    assert weights.sha256 == pretrained.fingerprint()
    assert weights.number > 100_000
    assert weights.card.exists()


def test_damaged_weights_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    assert "cannot be found" in str(installation.shipped_weights("default"))


def test_encoders_are_reported_with_where_their_weights_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installation, "PACKAGED", {"minilm": "no_such_package"})
    encoders = {each.name: each for each in installation.encoders()}
    assert encoders["log-mel"].ready
    assert not encoders["minilm"].ready
    assert "unitail[offline]" in encoders["minilm"].where


def test_a_downloaded_model_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub, "snapshot_download", lambda *_, **__: str(tmp_path))
    states = {each.name: each for each in installation.encoders()}
    assert not states["resnet-18"].ready  # a folder without weights
    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).write_text("{}")
    states = {each.name: each for each in installation.encoders()}
    assert (states["resnet-18"].ready, states["resnet-18"].where) == (True, str(tmp_path))


def test_without_the_hub_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    states = {each.name: each for each in installation.encoders()}
    assert "unitail[encoders]" in states["resnet-18"].where
