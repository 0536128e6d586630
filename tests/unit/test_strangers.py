"""Files from strangers run no code: every format is opened with a payload that would leave a mark.

The payloads are pickles, the one format that runs what its maker wants, in the place of what each
reader expects, and names of code to fetch. A reader may refuse them, or read on without them.
"""

import io
import json
import os
import pickle
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from helpers.banks import write_bank
from helpers.builders import small_model
from helpers.short_runs import write_recipe
from unitail.banks.bank import FeatureBank
from unitail.banks.importer import CodedBank
from unitail.benchmark.suite_file import read_suite
from unitail.encoders.cache import FILE, FeatureCache
from unitail.encoders.images import read_image
from unitail.encoders.registry import make_encoder
from unitail.encoders.sounds import read_sound
from unitail.engines.chunk_results import ChunkFolder
from unitail.engines.engine import ChunkReport
from unitail.engines.storage import Storage
from unitail.errors import UserError
from unitail.estimator.classifier import TailClassifier
from unitail.inputs.read import read_labelled
from unitail.learners.checkpoint import load_model, save_model
from unitail.training.recipe import read_recipe
from unitail.training.run_folder import RunFolder

X, Y = np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 0, 1]


class Payload:
    """Makes a folder where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.mark,)


def _objects(mark: Path) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([Payload(mark)] * 4, dtype=object), allow_pickle=True)
    return file.getvalue()


def _torch(mark: Path) -> bytes:
    file = io.BytesIO()
    torch.save({"weight": Payload(mark)}, file)
    return file.getvalue()


def _bank(folder: Path, mark: Path) -> None:
    for name in ("features.npy", "labels.npy"):
        bank = write_bank(folder / name).folder
        (bank / name).write_bytes(_objects(mark))
        _tried(lambda bank=bank: FeatureBank.open(bank).verify())  # type: ignore[misc]


def _coded(folder: Path, mark: Path) -> None:
    for victim in ("q", "scale", "code", "y", "classes"):
        path = folder / f"{victim}.npz"
        arrays = {"q": np.zeros((4, 2), np.uint8), "scale": np.float32(1), "code": np.array("sqrt"),
                  "y": np.arange(4) % 2, "classes": np.array(["a", "b"])}  # fmt: skip
        np.savez(path, **{name: each for name, each in arrays.items() if name != victim})  # type: ignore[arg-type]
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(f"{victim}.npy", _objects(mark))
        _tried(lambda path=path: list(CodedBank.open(path).chunks()))  # type: ignore[misc]


def _model(folder: Path, mark: Path) -> None:
    for content in (_torch(mark), pickle.dumps(Payload(mark))):
        model = save_model(small_model(), folder / "model")
        (model / "model.safetensors").write_bytes(content)
        _tried(partial(load_model, model))
        (model / "pytorch_model.bin").write_bytes(content)
        _tried(partial(make_encoder, str(model), device="cpu"))


def _classifier(folder: Path, mark: Path) -> None:
    saved = TailClassifier(random_state=0).fit(X, Y).save(folder / "saved", calibrate=False)
    whole = (saved / "classifier.json").read_text()
    for name in ("support.safetensors", "classifier.json"):
        (saved / name).write_bytes(pickle.dumps(Payload(mark)))
        _tried(lambda: TailClassifier.load(saved))
        (saved / "classifier.json").write_text(whole)
    TailClassifier(random_state=0).fit(X, Y).save(saved, calibrate=False)
    table = json.loads(whole)
    for name, value in {
        "encoder": {"a": str(mark)},
        "model": str(folder),
        "cache": str(mark),
    }.items():
        forged = {**table, "parameters": {**table["parameters"], name: value}}
        (saved / "classifier.json").write_text(json.dumps(forged))
        _tried(lambda: TailClassifier.load(saved).predict(X))


def _tables(folder: Path, mark: Path) -> None:
    payload = pickle.dumps(Payload(mark))
    for suffix in ("csv", "tsv", "jsonl", "parquet", "xlsx", "json", "feather", "arrow", "csv.gz"):
        path = folder / f"t.{suffix}"
        path.write_bytes(payload)
        _tried(lambda path=path: read_labelled(path))  # type: ignore[misc]
    fields = [pa.field("x", pa.int64(), metadata={
        "ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": payload,
    })]  # fmt: skip
    table = pa.table([pa.array([1, 2]), pa.array(["a", "b"])],
                     schema=pa.schema([*fields, pa.field("label", pa.string())]))  # fmt: skip
    pq.write_table(table, folder / "t.parquet")
    _tried(lambda: read_labelled(folder / "t.parquet"))


def _items(folder: Path, mark: Path) -> None:
    for content in (pickle.dumps(Payload(mark)), _objects(mark), _torch(mark)):
        _tried(lambda content=content: read_image(content))  # type: ignore[misc]
        _tried(lambda content=content: read_sound(content, 16_000))  # type: ignore[misc]


def _cache(folder: Path, mark: Path) -> None:
    cache = FeatureCache(folder)
    cache.put_many("net", {"a": np.zeros(2, np.float32)})
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("UPDATE vectors SET vector = ?", (pickle.dumps(Payload(mark)),))
    connection.close()
    assert cache.get_many("net", ["a"]) == {}


def _runs(folder: Path, mark: Path) -> None:
    recipe = write_recipe(folder / "recipe.toml")
    for read in (read_recipe, read_suite):
        recipe.write_bytes(pickle.dumps(Payload(mark)))
        _tried(lambda read=read: read(recipe))  # type: ignore[misc]
    checkpoint = folder / "checkpoints" / "step-00000001"
    shutil.copytree(save_model(small_model(), folder / "model"), checkpoint)
    for name in ("optimiser.safetensors", "state.json"):
        (checkpoint / name).write_bytes(pickle.dumps(Payload(mark)))
    _tried(lambda: RunFolder(folder).load(checkpoint))


def _chunks(folder: Path, mark: Path) -> None:
    results = ChunkFolder(Storage(folder / "job"))
    results.begin({"job": "encode"})
    results.write(pa.table({"x": [1]}), ChunkReport(index=0, rows=1))
    for name in ("chunk-00000000.parquet", "_job.json", "_summary.json"):
        (folder / "job" / name).write_bytes(pickle.dumps(Payload(mark)))
        for read in (
            lambda: results.begin({"job": "encode"}),
            lambda: results.read(0),
            results.summary,
        ):
            _tried(read)


def _tried(read: Callable[[], object]) -> None:
    """Read; an error meant for users is fine."""
    with suppress(UserError):
        read()


@pytest.mark.parametrize(
    "attack", [_bank, _coded, _model, _classifier, _tables, _items, _cache, _runs, _chunks]
)
def test_no_format_runs_code(attack: Callable[[Path, Path], None], tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "files").mkdir()
    attack(tmp_path / "files", mark)
    assert not mark.exists()


def test_the_payload_works_where_it_is_unpickled(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Payload(tmp_path / "mark")))
    assert (tmp_path / "mark").is_dir()
    np.load(io.BytesIO(_objects(tmp_path / "other")), allow_pickle=True)
    assert (tmp_path / "other").is_dir()


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    """Archives can hold pipes, and to open one waits for somebody to write."""
    model = save_model(small_model(), tmp_path / "model")
    saved = TailClassifier(model, random_state=0).fit(X, Y).save(tmp_path / "s", calibrate=False)
    bank = write_bank(tmp_path / "bank").folder
    for folder, names, opened in (
        (saved, ["classifier.json", "support.safetensors"], TailClassifier.load),
        (saved, ["config.json", "model.safetensors"], TailClassifier.load),
        (bank, ["manifest.json", "classes.json", "features.npy", "labels.npy"], FeatureBank.open),
    ):
        for name in names:
            whole = (folder / name).rename(tmp_path / "whole")
            os.mkfifo(folder / name)
            with pytest.raises(UserError):
                opened(folder)
            whole.rename(folder / name)
        opened(folder)
