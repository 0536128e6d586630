import json
import shutil
import time
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch

from unitail.encoders.model_folder import check_folder, hashes, locate
from unitail.errors import UnknownEncoder

COMMIT = "0" * 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder like that of a model; its weights are not read."""
    folder = tmp_path / "mein Mödell"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "bert"}')
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Set an empty hub cache, and a hub that does not answer."""
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_folder_is_where_it_is(folder: Path) -> None:
    assert locate(str(folder)) == folder
    check_folder(folder, "model")


@pytest.mark.parametrize("name", ["nobody/nothing", "nothing", "nobody/nothing@main", "a/b/c d"])
def test_a_missing_model_without_network_fails_at_once(name: str, no_network: Path) -> None:
    start = time.perf_counter()
    with pytest.raises(UnknownEncoder, match="the hub cannot be reached") as raised:
        locate(name)
    assert time.perf_counter() - start < 15  # much longer, if it was tried again and again
    assert f"model '{name}'" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_offline_mode_is_respected(monkeypatch: pytest.MonkeyPatch, no_network: Path) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "https://huggingface.co")
    with pytest.raises(UnknownEncoder, match=r"the hub cannot be reached: got .*offline mode"):
        locate("nobody/nothing")


def test_what_was_downloaded_before_is_found_without_network(
    folder: Path, no_network: Path
) -> None:
    repository = no_network / "models--somebody--bert"
    snapshot = Path(shutil.copytree(folder, repository / "snapshots" / COMMIT))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    assert locate("somebody/bert") == locate(f"somebody/bert@{COMMIT}") == snapshot
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(UnknownEncoder, match="the hub cannot be reached"):
        locate("somebody/bert")


def test_a_download_takes_only_what_is_read(
    folder: Path, no_network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def download(repository: str, **options: object) -> str:
        if options.get("local_files_only"):
            raise FileNotFoundError
        asked.append((repository, options))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr("unitail.encoders.model_folder._probe", lambda *_: None)
    assert locate("somebody/bert@refs/pr/1") == folder
    ((repository, options),) = asked
    assert (repository, options["revision"]) == ("somebody/bert", "refs/pr/1")
    taken = huggingface_hub.utils.filter_repo_objects(
        [
            *("config.json", "model.safetensors", "model-00001-of-00002.safetensors", "vocab.txt"),
            *("pytorch_model.bin", "open_clip_model.safetensors", "onnx/model.onnx", "evil.py"),
        ],
        allow_patterns=options["allow_patterns"],
    )
    assert list(taken) == [
        *("config.json", "model.safetensors", "model-00001-of-00002.safetensors", "vocab.txt")
    ]


def test_a_download_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(repository: str, **options: object) -> str:
        raise RuntimeError("401 Client Error.\nMore about it.")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr("unitail.encoders.model_folder._probe", lambda *_: None)
    with pytest.raises(UnknownEncoder, match="cannot be loaded: got 401 Client Error; allowed"):
        locate("nobody/private")


def test_a_missing_folder_is_not_looked_up_on_the_hub(tmp_path: Path) -> None:
    for name in (str(tmp_path / "nowhere"), "./nowhere"):
        with pytest.raises(UnknownEncoder, match="cannot be loaded: got no such folder"):
            locate(name)


def test_pickled_weights_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(UnknownEncoder, match=r"no safetensors weights: got pytorch_model\.bin"):
        check_folder(folder, "model")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownEncoder, match=r"cannot be loaded: got no config\.json"):
        check_folder(tmp_path, "model")


@pytest.mark.parametrize(
    "entry",
    [{"attn_implementation": "somebody/kernel"}, {"x": {"_attn_implementation": {"": "a/b:c"}}}],
)
def test_a_configuration_that_fetches_code_is_refused(
    folder: Path, entry: dict[str, object]
) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", **entry}))
    with pytest.raises(UnknownEncoder, match="asks for attention code"):
        check_folder(folder, "model")


def test_a_configuration_may_choose_among_what_is_installed(folder: Path) -> None:
    (folder / "config.json").write_text('{"attn_implementation": "sdpa", "_name_or_path": "a/b"}')
    check_folder(folder, "model")
    (folder / "config.json").write_text('{"attn_implementation": "a/b", "_name_or_path": "sdpa"}')
    with pytest.raises(UnknownEncoder, match="asks for attention code"):
        check_folder(folder, "model")


def test_hashes_are_of_all_that_is_read(folder: Path) -> None:
    before = hashes(folder)
    (folder / "README.md").write_text("not read")
    assert hashes(folder) == before
    for name in ("model-00001-of-00002.safetensors", "vocab.txt"):
        (folder / name).write_text("read")
        assert hashes(folder) != before
        before = hashes(folder)
