"""A small model in the place of the shipped one, so that tests are fast and need no weights."""

from pathlib import Path

import pytest

from unitail.encoders.cache import FOLDER_VARIABLE, FeatureCache
from unitail.learners import pretrained
from unitail.learners.checkpoint import save_model
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an untrained model, which starts from ridge regression."""
    model = Relational(PRESETS["tiny"])
    folder = save_model(model, tmp_path_factory.mktemp("weights") / "default")
    pretrained.write_manifest(folder)
    return folder


@pytest.fixture(autouse=True)
def _shipped(
    request: pytest.FixtureRequest, stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ship the stand-in, but for tests that are marked to need the real weights."""
    if "real_weights" not in request.fixturenames:
        monkeypatch.setattr(pretrained, "FOLDER", stand_in)


@pytest.fixture(scope="session")
def real_weights() -> None:
    """Skip where the package has no weights."""
    if pretrained.DEFAULT not in pretrained.shipped_names():
        pytest.skip("this tree has no weights in src/unitail/weights/default yet")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FeatureCache:
    """Return a feature cache of the test's own, which is the default one meanwhile."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    return FeatureCache(tmp_path / "cache")
