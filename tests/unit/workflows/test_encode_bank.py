from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.forks import COMMAND, fork_group
from helpers.sounds import KINDS, write_sounds
from unitail.banks.writer import BankWriter
from unitail.encoders.cache import FeatureCache
from unitail.encoders.log_mel import LogMelEncoder
from unitail.encoders.registry import make_encoder
from unitail.errors import InvalidBank, InvalidInput
from unitail.inputs.read import read_labelled
from unitail.processes import ProcessGroup
from unitail.workflows import encode_bank as module
from unitail.workflows.encode_bank import MadeBank, encode_bank


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_sounds(tmp_path / "sounds")


@pytest.fixture
def cache(tmp_path: Path) -> FeatureCache:
    return FeatureCache(tmp_path / "cache")


def make(
    folder: Path, out: Path, cache: FeatureCache, group: ProcessGroup | None = None
) -> MadeBank:
    encoder = make_encoder("log-mel", device="cpu")
    made = encode_bank(
        read_labelled(folder),
        encoder,
        out,
        name="toy",
        cache=cache,
        processes=group or ProcessGroup(),
    )
    assert made is not None
    return made


def _one_of_two(index: int) -> ProcessGroup:
    return ProcessGroup(
        SimpleNamespace(process_index=index, num_processes=2, wait_for_everyone=lambda: None)
    )


def count_embedded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many items are computed rather than looked up."""
    counts: list[int] = []
    embed = LogMelEncoder.embed

    def noted(self: LogMelEncoder, batch: Sequence[np.ndarray]) -> np.ndarray:
        counts.append(len(batch))
        return embed(self, batch)

    monkeypatch.setattr(LogMelEncoder, "embed", noted)
    return counts


def test_files_become_a_bank(folder: Path, tmp_path: Path, cache: FeatureCache) -> None:
    made = make(folder, tmp_path / "bank", cache)
    bank, encoder = made.bank, make_encoder("log-mel", device="cpu")
    bank.verify()
    assert made.unreadable == ()
    assert bank.class_names == tuple(sorted(KINDS))
    assert bank.class_sizes.tolist() == [4, 4, 4]
    assert bank.manifest.encoder == "log-mel"
    assert bank.manifest.encoder_revision == encoder.fingerprint
    first = encoder.embed([encoder.read(folder / "beep" / "0.wav")])[0]
    assert np.allclose(bank.features[0], first, atol=1e-2)


def test_what_cannot_be_read_is_left_out_and_reported(
    folder: Path, tmp_path: Path, cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", 5)
    (folder / "hiss" / "broken.wav").write_bytes(b"RIFF")
    made = make(folder, tmp_path / "bank", cache)
    assert made.bank.num_rows == 12
    names = read_labelled(folder).names
    assert [names[each.place] for each in made.unreadable] == ["hiss/broken.wav"]


def test_nothing_readable_is_refused(tmp_path: Path, cache: FeatureCache) -> None:
    for kind in ("a", "b"):
        (tmp_path / "all" / kind).mkdir(parents=True)
        (tmp_path / "all" / kind / "x.wav").write_bytes(b"RIFF")
    with pytest.raises(InvalidInput, match="nothing to encode"):
        make(tmp_path / "all", tmp_path / "bank", cache)


def test_a_bank_that_is_there_is_opened_if_it_is_the_same(
    folder: Path, tmp_path: Path, cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(folder, tmp_path / "bank", cache)
    counts = count_embedded(monkeypatch)
    assert make(folder, tmp_path / "bank", cache).bank.num_rows == 12
    assert counts == []
    (folder / "hum" / "0.wav").write_bytes((folder / "hiss" / "0.wav").read_bytes())
    with pytest.raises(InvalidBank, match=r"does not match: got source = .* Delete it to encode"):
        make(folder, tmp_path / "bank", cache)


def test_a_run_that_was_broken_off_resumes(
    folder: Path, tmp_path: Path, cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make(folder, tmp_path / "whole", cache).bank
    monkeypatch.setattr(module, "CHUNK", 5)
    append, begun = BankWriter.append, []

    def stop(self: BankWriter, *rows: np.ndarray) -> None:
        begun.append(self.rows_written)
        if len(begun) == 2:
            raise KeyboardInterrupt
        append(self, *rows)

    monkeypatch.setattr(BankWriter, "append", stop)
    with pytest.raises(KeyboardInterrupt):
        make(folder, tmp_path / "bank", cache)
    counts = count_embedded(monkeypatch)
    bank = make(folder, tmp_path / "bank", cache).bank
    assert (begun, counts) == ([0, 5, 5, 10], [])
    assert (bank.features == whole.features).all()
    assert (bank.class_indices == whole.class_indices).all()


def test_without_a_usable_cache_the_bank_is_the_same(
    folder: Path, tmp_path: Path, cache: FeatureCache
) -> None:
    one = make(folder, tmp_path / "one", cache).bank
    other = make(folder, tmp_path / "other", FeatureCache(tmp_path / "none", limit_bytes=0)).bank
    assert (one.features == other.features).all()


def test_others_encode_their_part_and_leave_the_bank_to_the_first(
    folder: Path, tmp_path: Path, cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "beep" / "broken.wav").write_bytes(b"RIFF")
    counts = count_embedded(monkeypatch)
    out, examples = tmp_path / "bank", read_labelled(folder)

    def work(group: ProcessGroup) -> MadeBank | None:
        encoder = make_encoder("log-mel", device="cpu")
        return encode_bank(examples, encoder, out, name="toy", cache=cache, processes=group)

    assert work(_one_of_two(1)) is None
    assert not out.exists()
    assert sum(counts) == 6
    made = work(_one_of_two(0))
    assert made is not None
    assert (sum(counts), made.bank.num_rows, len(made.unreadable)) == (12, 12, 1)


def test_tables_are_refused(tmp_path: Path, cache: FeatureCache) -> None:
    (tmp_path / "t.csv").write_text("x,y,label\n1,2,a\n2,3,b\n")
    with pytest.raises(InvalidInput, match="tables have no frozen encoder"):
        make(tmp_path / "t.csv", tmp_path / "bank", cache)


@pytest.mark.slow
def test_two_processes_make_the_bank_of_one(
    folder: Path, tmp_path: Path, cache: FeatureCache
) -> None:
    """As torchrun would start them on a machine without a GPU."""
    alone = make(folder, tmp_path / "alone" / "toy", cache).bank
    pair, shared = tmp_path / "pair" / "toy", tmp_path / "shared"
    variables = {"UNITAIL_CACHE": shared, "CUDA_VISIBLE_DEVICES": ""}
    options = ["encode", folder, "-o", pair]
    output = fork_group(COMMAND, *options, output=tmp_path / "output", variables=variables)
    assert output.count("12 examples of 3 classes") == output.count("12 rows of 3 classes") == 1, (
        output
    )
    assert "unitail: " not in output  # which begins the line of a mistake
    for file in ("features.npy", "labels.npy", "classes.json", "manifest.json"):
        assert (pair / file).read_bytes() == (alone.folder / file).read_bytes()
    assert FeatureCache(shared).info().entries == 12
