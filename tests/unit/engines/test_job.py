import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from helpers.sounds import write_sounds
from unitail.banks.manifest import FeatureType
from unitail.encoders.cache import FeatureCache
from unitail.encoders.registry import make_encoder
from unitail.engines import storage
from unitail.engines.bank import BankFacts
from unitail.engines.chunk_results import ChunkFolder, Summary
from unitail.engines.encoding import EncodeChunk
from unitail.engines.job import answer_rows_to_folder, encode_rows, encode_rows_to_bank
from unitail.engines.local import LocalEngine
from unitail.engines.rows import open_rows
from unitail.engines.storage import Storage
from unitail.errors import CannotWrite, InvalidInput
from unitail.inputs.items import ReadOptions
from unitail.inputs.read import read_labelled
from unitail.processes import ProcessGroup
from unitail.workflows.encode_bank import encode_bank
from unitail.workflows.fit import ClassifierOptions, fit_files

ENCODER = make_encoder("log-mel", device="cpu")


@pytest.fixture
def sounds(tmp_path: Path) -> Path:
    folder = write_sounds(tmp_path / "sounds")
    (folder / "hiss" / "broken.wav").write_bytes(b"RIFF")
    return folder


def _encode(name: str, out: Storage, engine: LocalEngine | None = None) -> Summary:
    return encode_rows(engine or LocalEngine(), open_rows([name]), ENCODER, out, chunk_rows=5)


def _rows(out: Storage, summary: Summary) -> list[dict[str, Any]]:
    tables = [ChunkFolder(out).read(index) for index in range(summary.chunks)]
    return [row for table in tables for row in table.to_pylist()]


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_all_rows_are_there_in_order_with_a_vector_or_a_reason(
    sounds: Path, tmp_path: Path
) -> None:
    out = Storage(tmp_path / "out")
    progress: list[tuple[int, int]] = []
    rows = open_rows([str(sounds)])
    summary = encode_rows(
        LocalEngine(), rows, ENCODER, out, chunk_rows=5, on_progress=lambda *n: progress.append(n)
    )
    assert (summary.chunks, summary.rows, summary.unreadable) == (3, 13, 1)
    assert summary.counts == {"vectors": 12}
    assert set(summary.seconds) == {"read", "encode", "write"}
    assert progress == [(0, 13), (5, 13), (10, 13), (13, 13)]
    written = _rows(out, summary)
    assert [row["file"] for row in written] == [str(path) for path in sorted(sounds.rglob("*.wav"))]
    [broken] = [row for row in written if row["vector"] is None]
    assert broken["file"].endswith("hiss/broken.wav")
    assert broken["reason"].startswith("holds no sound")
    assert summary.named == (f"row 9 ({broken['file']}): {broken['reason']}",)
    first = ENCODER.embed([ENCODER.read(Path(written[0]["file"]))])[0]
    np.testing.assert_allclose(written[0]["vector"], first, rtol=1e-6)


def test_a_bank_is_that_of_a_single_process(
    sounds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte, its manifest too; two processes make the same."""
    one = encode_bank(
        read_labelled(sounds),
        ENCODER,
        tmp_path / "one",
        name="toy",
        licence="CC0",
        cache=FeatureCache(tmp_path / "cache"),
        processes=ProcessGroup(),
    )
    assert one is not None
    facts = BankFacts(name="toy", licence="CC0")
    for workers in (1, 2):
        rows, folder = open_rows([str(sounds)], labelled=True), tmp_path / f"by {workers}"
        engine = LocalEngine(workers)
        bank, summary = encode_rows_to_bank(engine, rows, ENCODER, folder, facts, chunk_rows=5)
        assert (bank.num_rows, summary.unreadable) == (12, 1)
        assert _files(folder) == _files(tmp_path / "one")
    beside = folder.with_name(f".{folder.name}.chunks")
    assert sorted(path.name for path in beside.iterdir()) == ["_job.json", "_summary.json"]
    make = partial(encode_rows_to_bank, LocalEngine(), rows, ENCODER, folder, facts, chunk_rows=5)
    with monkeypatch.context() as patch:
        patch.setattr(EncodeChunk, "__call__", None)  # nothing is encoded again
        assert make()[1] == summary
    shutil.rmtree(folder)
    assert make()[0].num_rows == 12  # but it is after the bank was removed
    (sounds / "hum" / "0.wav").unlink()
    with pytest.raises(CannotWrite, match="result of another job: got another rows"):
        encode_rows_to_bank(
            LocalEngine(), open_rows([str(sounds)], labelled=True), ENCODER, folder, facts
        )


def test_a_job_that_a_full_disk_broke_off_resumes(
    sounds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _encode(str(sounds), Storage(tmp_path / "whole"))
    out, write, written = Storage(tmp_path / "out"), storage.write_bytes, list[str]()

    def fills(path: Path, content: bytes) -> None:
        if len(written) == 3:  # the job and two chunks
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(path.name)
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_bytes", fills)
        with pytest.raises(CannotWrite, match=r"No space left.* what was saved before is intact"):
            _encode(str(sounds), out)
    assert out.names() == ["_job.json", "chunk-00000000.parquet", "chunk-00000001.parquet"]
    before = {name: out.read(name) for name in out.names()}
    summary = _encode(str(sounds), out)
    assert before == {name: out.read(name) for name in before}  # nothing was done again
    assert _rows(out, summary) == _rows(Storage(tmp_path / "whole"), whole)
    assert replace(summary, seconds={}) == replace(whole, seconds={})


def test_what_a_kill_or_the_disk_left_is_passed_over_or_named(sounds: Path, tmp_path: Path) -> None:
    out = Storage(tmp_path / "out")
    out.write("._job.json.new", b"{")
    whole = _encode(str(sounds), out)
    chunk = tmp_path / "out" / "chunk-00000001.parquet"
    chunk.write_bytes(chunk.read_bytes()[:-9])
    with pytest.raises(
        InvalidInput, match=r"00001\.parquet is damaged: .* Remove the file, and run"
    ):
        _encode(str(sounds), out)
    chunk.unlink()
    assert _encode(str(sounds), out).counts == whole.counts
    (tmp_path / "out" / "_job.json").write_bytes(b"{")
    with pytest.raises(InvalidInput, match=r"_job\.json is damaged: .* Remove the folder"):
        _encode(str(sounds), out)


def test_another_job_is_not_continued(sounds: Path, tmp_path: Path) -> None:
    out = Storage(tmp_path / "out")
    _encode(str(sounds), out)
    rows = open_rows([str(sounds)])
    with pytest.raises(CannotWrite, match="result of another job: got another dtype;"):
        encode_rows(LocalEngine(), rows, ENCODER, out, dtype="float16", chunk_rows=5)
    (sounds / "hum" / "0.wav").unlink()
    with pytest.raises(CannotWrite, match="result of another job: got another rows"):
        _encode(str(sounds), out)
    with pytest.raises(CannotWrite, match="sounds is not empty: got 3 files"):
        _encode(str(sounds), Storage(sounds))


def test_other_settings_are_not_mixed(sounds: Path, tmp_path: Path) -> None:
    """Neither how rows are read nor what a bank is called, in the same folder."""
    files = sorted(map(str, sounds.rglob("*.wav")))
    lines = [f"{file},{file},{'ab'[n % 2]},{'cd'[n % 2]}" for n, file in enumerate(files)]
    (tmp_path / "t.csv").write_text("\n".join(["file,other,label,kind", *lines]))
    table, out = [str(tmp_path / "t.csv")], Storage(tmp_path / "out")
    encode_rows(LocalEngine(), open_rows(table, ReadOptions(content_column="file")), ENCODER, out)
    with pytest.raises(CannotWrite, match="another job: got another content column;"):
        encode_rows(
            LocalEngine(), open_rows(table, ReadOptions(content_column="other")), ENCODER, out
        )

    def to_bank(label: str, facts: BankFacts) -> None:
        rows = open_rows(
            table, ReadOptions(content_column="file", label_column=label), labelled=True
        )
        encode_rows_to_bank(LocalEngine(), rows, ENCODER, tmp_path / "bank", facts)

    facts = BankFacts(name="x")
    to_bank("label", facts)
    with pytest.raises(CannotWrite, match="another job: got another label column;"):
        to_bank("kind", facts)
    for fact, other in (("name", "y"), ("licence", "MIT"), ("dtype", FeatureType.FLOAT32)):
        with pytest.raises(CannotWrite, match=f"another job: got another bank's {fact};"):
            to_bank("label", replace(facts, **{fact: other}))


def test_a_bank_of_one_class_is_refused(tmp_path: Path) -> None:
    lines = [f"{path},hum" for path in sorted(write_sounds(tmp_path / "s").rglob("*.wav"))]
    (tmp_path / "t.csv").write_text("\n".join(["file,label", *lines]))
    rows = open_rows([str(tmp_path / "t.csv")], labelled=True)
    with pytest.raises(
        InvalidInput, match="a bank needs two classes or more: got 12 readable rows"
    ):
        encode_rows_to_bank(LocalEngine(), rows, ENCODER, tmp_path / "b", BankFacts(name="x"))


@pytest.fixture
def bucket(sounds: Path) -> Iterator[str]:
    store = fsspec.filesystem("memory")
    store.store.clear()
    for path in sounds.rglob("*.wav"):
        store.pipe_file(f"/bucket/{path.relative_to(sounds)}", path.read_bytes())
    yield "memory://bucket"
    store.store.clear()


def test_files_at_an_address_are_read_and_results_written_there(
    sounds: Path, bucket: str, tmp_path: Path
) -> None:
    out = Storage("memory://results/vectors")
    here, there = _encode(str(sounds), Storage(tmp_path / "o")), _encode(bucket, out)
    vectors = [[row["vector"] for row in _rows(out, there)]]
    vectors.append([row["vector"] for row in _rows(Storage(tmp_path / "o"), here)])
    assert vectors[0] == vectors[1]
    rows = open_rows([bucket], labelled=True)
    bank, _ = encode_rows_to_bank(
        LocalEngine(), rows, ENCODER, tmp_path / "bank", BankFacts(name="x")
    )
    assert (bank.num_rows, bank.class_names) == (12, ("beep", "hiss", "hum"))


def test_answers_about_sounds_name_what_cannot_be_read(
    sounds: Path, bucket: str, tmp_path: Path
) -> None:
    examples = read_labelled(write_sounds(tmp_path / "known", count=2))
    classifier = fit_files(examples, ClassifierOptions(device="cpu")).classifier
    out, rows = Storage("memory://results/answers"), open_rows([bucket], like=examples)
    fsspec.filesystem("memory").rm_file("/bucket/hum/3.wav")  # after it was listed
    summary = answer_rows_to_folder(LocalEngine(), rows, classifier, out, chunk_rows=1)
    assert (summary.rows, summary.unreadable) == (13, 2)
    tables = [ChunkFolder(out).read(index) for index in range(summary.chunks)]
    assert all(table.schema.equals(tables[0].schema) for table in tables)  # also without answers
    written = {row["file"]: row for row in _rows(out, summary)}
    assert [name for name in written if written[name]["answer"] is None] == [
        "hiss/broken.wav", "hum/3.wav",
    ]  # fmt: skip
    assert "FileNotFoundError" in written["hum/3.wav"]["reason"]
    said = [name.split("/")[0] == row["answer"] for name, row in written.items() if row["answer"]]
    assert sum(said) >= 10
