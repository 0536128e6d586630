from pathlib import Path

import pytest

from helpers.sounds import KINDS, write_sounds
from unitail.banks.bank import FeatureBank
from unitail.datasets.catalogue import find_entry
from unitail.encoders.cache import FeatureCache
from unitail.encoders.registry import make_encoder
from unitail.errors import InvalidInput
from unitail.processes import ProcessGroup
from unitail.workflows.prepare import Prepared, encode_data_set, read_data_set

GTZAN = find_entry("gtzan")


def _read(root: Path) -> Prepared:
    [prepared] = read_data_set(GTZAN, root, GTZAN.split(), any_version=True)
    return prepared


def test_files_become_a_bank_of_the_entrys_name(tmp_path: Path) -> None:
    write_sounds(tmp_path / "genres", count=2)
    prepared = _read(tmp_path)
    assert prepared.examples.names[0] == "beep/0.wav"
    made = encode_data_set(
        prepared,
        make_encoder("log-mel", device="cpu"),
        tmp_path / "banks",
        cache=FeatureCache(tmp_path / "cache"),
        processes=ProcessGroup(),
        licence=GTZAN.licence,
    )
    assert made is not None
    bank = FeatureBank.open(tmp_path / "banks" / "log-mel" / "gtzan")
    assert (bank.full_name, bank.class_sizes.tolist()) == ("log-mel/gtzan", [2, 2, 2])
    assert bank.class_names == tuple(sorted(KINDS))
    assert bank.manifest.licence == GTZAN.licence


def test_a_set_too_large_for_the_cache_has_one_of_its_own_until_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sounds(tmp_path / "genres", count=1)
    prepared, small = _read(tmp_path), FeatureCache(tmp_path / "cache", limit_bytes=1000)
    encoder, banks = make_encoder("log-mel", device="cpu"), tmp_path / "banks"
    own = banks / "log-mel" / ".gtzan.vectors"

    def stopped(*_: object, **__: object) -> None:
        assert own.is_dir()  # what is encoded is kept there
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("unitail.workflows.encode_bank._Content.of", stopped)
        with pytest.raises(KeyboardInterrupt):
            encode_data_set(prepared, encoder, banks, cache=small, processes=ProcessGroup())
    assert FeatureCache(own).info().entries == 3
    assert encode_data_set(prepared, encoder, banks, cache=small, processes=ProcessGroup())
    assert not own.exists()
    assert not (tmp_path / "cache").exists()


def test_nothing_is_written_for_files_that_are_wrong(tmp_path: Path) -> None:
    write_sounds(tmp_path / "genres", count=1)
    with pytest.raises(InvalidInput, match="another version of gtzan"):
        list(read_data_set(GTZAN, tmp_path, GTZAN.split()))
    assert [path.name for path in tmp_path.iterdir()] == ["genres"]
