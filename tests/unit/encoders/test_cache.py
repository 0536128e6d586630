import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unitail.encoders import cache, vector_file
from unitail.encoders.cache import DEFAULT_LIMIT, FILE, FeatureCache, default_cache, user_folder
from unitail.encoders.vector_file import EncoderCount
from unitail.errors import CannotWrite, InvalidConfig

VECTORS = {"a": np.ones(3, np.float32), "b": np.zeros(3, np.float32)}


def test_vectors_outlive_the_object(tmp_path: Path) -> None:
    FeatureCache(tmp_path).put_many("net", VECTORS, name="Net")
    vectors = FeatureCache(tmp_path).get_many("net", (name for name in "abc"))
    assert vectors.keys() == {"a", "b"}
    np.testing.assert_array_equal(vectors["a"], VECTORS["a"])


def test_what_is_there_is_reported(tmp_path: Path) -> None:
    here = FeatureCache(tmp_path / "cache", limit_bytes=10**6)
    assert (here.info().entries, here.info().bytes, here.info().encoders) == (0, 0, ())
    here.put_many("f1", VECTORS, name="Net")
    here.put_many("f2", {"a": VECTORS["a"]}, name="Other")
    info = here.info()
    assert (info.folder, info.limit, info.entries) == (tmp_path / "cache", 10**6, 3)
    assert info.bytes == (tmp_path / "cache" / FILE).stat().st_size
    assert info.encoders == (EncoderCount("Net", "f1", 2), EncoderCount("Other", "f2", 1))


def test_all_are_cleared(tmp_path: Path) -> None:
    here = FeatureCache(tmp_path)
    assert here.clear() == 0
    here.put_many("f1", VECTORS)
    here.put_many("f2", VECTORS)
    assert here.clear() == 4
    assert (here.get_many("f1", "ab"), here.get_many("f2", "ab")) == ({}, {})


def test_the_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    FeatureCache(tmp_path / "cache").put_many("net", VECTORS)
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


def test_a_limit_of_nothing_writes_nothing(tmp_path: Path) -> None:
    FeatureCache(tmp_path, limit_bytes=0).put_many("net", VECTORS)
    assert list(tmp_path.iterdir()) == []


# Trouble


def test_a_folder_that_cannot_be_made_is_reported_and_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    here = FeatureCache(tmp_path / "file" / "cache")
    here.put_many("net", VECTORS)
    assert here.trouble is not None
    assert here.trouble.startswith(f"the feature cache in {tmp_path}/file/cache cannot be used: ")
    assert here.get_many("net", "ab") == {}
    assert here.info().entries == 0


def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()  # has a size, but is no file
    (tmp_path / FILE / "content").write_text("")
    here = FeatureCache(tmp_path)
    assert here.get_many("net", "ab") == {}
    assert here.trouble is not None
    assert "unable to open" in here.trouble
    with pytest.raises(CannotWrite, match=r"could not be cleared: got unable to open .*by hand"):
        here.clear()


def test_nothing_is_stored_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a lock that is never given back is waited for once."""
    monkeypatch.setattr(vector_file, "TIMEOUT_SECONDS", 0.01)
    here, holder = FeatureCache(tmp_path), FeatureCache(tmp_path)
    holder.put_many("net", VECTORS)
    with holder._file._writing():
        here.put_many("net", {"c": VECTORS["a"]})
    assert here.trouble is not None
    assert "locked" in here.trouble
    here.put_many("net", {"d": VECTORS["a"]})
    assert here.get_many("net", "abcd").keys() == {"a", "b"}


FULL = """
import resource, signal, sys
import numpy as np
from pathlib import Path
from unitail.encoders.cache import FeatureCache
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
cache = FeatureCache(Path(sys.argv[1]))
cache.put_many("net", {"small": np.ones(3, np.float32)})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
cache.put_many("net", {str(n): np.ones(3000, np.float32) for n in range(1000)})
print(cache.trouble)
print(sorted(cache.get_many("net", ["small", "0"])))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits")
def test_a_full_disk_is_reported_and_the_rest_is_kept(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False
    )
    trouble, left = result.stdout.splitlines()
    assert "cannot be used: " in trouble
    assert left == "['small']"
    assert FeatureCache(tmp_path).info().entries == 1


# Where it is


def test_variables_decide_folder_and_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNITAIL_CACHE", str(tmp_path / "here"))
    monkeypatch.setenv("UNITAIL_CACHE_BYTES", "12345")
    assert default_cache().folder == tmp_path / "here"
    assert default_cache().limit_bytes == 12345
    monkeypatch.setenv("UNITAIL_CACHE", "")
    monkeypatch.setenv("UNITAIL_CACHE_BYTES", "")
    assert default_cache().folder == user_folder()
    assert default_cache().limit_bytes == DEFAULT_LIMIT


@pytest.mark.parametrize("limit", ["2 GB", "-1", "1.5"])
def test_a_limit_that_is_no_number_is_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNITAIL_CACHE_BYTES", limit)
    with pytest.raises(InvalidConfig, match=r"UNITAIL_CACHE_BYTES is not a size: got .*bytes"):
        default_cache()


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {}, "home/.cache/unitail"),
        ("linux", {"XDG_CACHE_HOME": "ROOT/xdg"}, "xdg/unitail"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "home/.cache/unitail"),
        ("darwin", {}, "home/Library/Caches/unitail"),
        ("win32", {}, "home/AppData/Local/unitail"),
        ("win32", {"LOCALAPPDATA": "ROOT/local"}, "local/unitail"),
    ],
)
def test_each_system_has_its_place(
    platform: str,
    variables: dict[str, str],
    folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("ROOT", str(tmp_path)))
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setattr(cache.sys, "platform", platform)
    assert user_folder() == tmp_path / folder


def test_a_user_without_a_home_has_a_cache_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert user_folder().is_absolute()
    assert os.access(user_folder().parent, os.W_OK)
