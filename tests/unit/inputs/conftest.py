from pathlib import Path

import pytest

from unitail.encoders.cache import FOLDER_VARIABLE, FeatureCache


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FeatureCache:
    """Return a feature cache of the test's own, which is the default one meanwhile."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    return FeatureCache(tmp_path / "cache")
