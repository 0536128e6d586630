from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import torch

from unitail.errors import InvalidCheckpoint
from unitail.learners import pretrained
from unitail.learners.checkpoint import CONFIG_FILE, WEIGHTS_FILE, save_model
from unitail.learners.pretrained import (
    DEFAULT,
    MANIFEST_FILE,
    fingerprint,
    load_default,
    load_shipped,
    shipped_folder,
    shipped_names,
    write_manifest,
)
from unitail.nn.episode_model import Visibility
from unitail.nn.random_projection import ProjectionKind
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational
from unitail.tail.model import Tail


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ship an untrained model."""
    shipped = save_model(Relational(PRESETS["tiny"]), tmp_path / "default")
    write_manifest(shipped)
    monkeypatch.setattr(pretrained, "FOLDER", shipped)
    return shipped


def test_the_model_is_loaded_once_for_each_number_type(folder: Path) -> None:
    single, double = load_default(), load_default("cpu", torch.float64)
    assert load_default(torch.device("cpu")) is single
    assert next(single.parameters()).dtype == torch.float32
    assert next(double.parameters()).dtype == torch.float64
    assert not single.training
    assert not any(weight.requires_grad for weight in single.parameters())


def test_weights_are_known_by_their_hash(folder: Path) -> None:
    assert DEFAULT in shipped_names()
    assert len(fingerprint()) == 64
    assert fingerprint() == fingerprint(folder)


@pytest.mark.parametrize("name", [CONFIG_FILE, WEIGHTS_FILE])
def test_damaged_files_are_refused(name: str, folder: Path) -> None:
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(InvalidCheckpoint, match=rf"{name} is damaged: .*Install unitail again"):
        load_default()
    (folder / name).unlink()
    with pytest.raises(InvalidCheckpoint, match="got no such file"):
        load_default()


@pytest.mark.parametrize("content", ["", "[]", '{"sha256": 3}', "{}"])
def test_a_damaged_manifest_is_refused(content: str, folder: Path) -> None:
    (folder / MANIFEST_FILE).write_text(content)
    with pytest.raises(InvalidCheckpoint, match=r"its manifest is damaged: got .*Error"):
        load_default()


def test_missing_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path / "default")
    assert DEFAULT not in shipped_names()
    with pytest.raises(InvalidCheckpoint, match=r"shipped model cannot be found.*TailClassifier\("):
        load_default()


def test_threads_that_ask_at_once_share_one_model() -> None:
    pretrained._load_once.cache_clear()
    together = Barrier(4)

    def ask(_: int) -> object:
        together.wait()
        return load_default()

    with ThreadPoolExecutor(4) as pool:
        assert len({id(model) for model in pool.map(ask, range(4))}) == 1


@pytest.mark.parametrize("name", ["tail", "tail-50w"])
def test_the_shipped_tails_are_whole_small_and_of_the_papers_kind(name: str) -> None:
    model, folder = load_shipped(name), shipped_folder(name)
    assert isinstance(model, Tail)
    assert model.trained_for == (Visibility.JOINT, Visibility.ISOLATED)
    assert model.config.projection is ProjectionKind.PERMUTATION
    assert model.config.dictionary_size == {"tail": 100, "tail-50w": 256}[name]
    assert (folder / WEIGHTS_FILE).stat().st_size <= 16 * 2**20
    assert name in shipped_names()


@pytest.mark.skipif(
    DEFAULT not in shipped_names(), reason="no weights in src/unitail/weights/default yet"
)
def test_the_shipped_weights_are_whole_and_small() -> None:
    assert load_default().config.max_ways is None
    size = sum(path.stat().st_size for path in pretrained.FOLDER.iterdir())
    assert size < 20 * 2**20
