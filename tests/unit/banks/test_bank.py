import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from helpers.banks import NAMES, rows_of, write_bank
from unitail.banks.bank import FeatureBank, bank_matches, find_banks, named_banks
from unitail.errors import InvalidBank
from unitail.files import sha256_of


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_bank_gives_back_what_was_written(tmp_path: Path, dtype: str) -> None:
    bank = write_bank(tmp_path / "bank", dtype=dtype, licence="MIT")
    features, indices = rows_of((4, 3, 5), 6)

    assert np.array_equal(bank.features, features.astype(dtype))
    assert np.array_equal(bank.class_indices, indices)
    assert (bank.features.dtype, bank.class_indices.dtype) == (dtype, np.int64)
    assert (bank.name, bank.encoder, bank.class_names) == ("animals", "toy", NAMES)
    assert (bank.num_rows, bank.feature_dim, bank.class_sizes.tolist()) == (12, 6, [4, 3, 5])
    assert bank.manifest.licence == "MIT"
    bank.verify()


def test_a_bank_is_mapped_and_read_only(tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "bank")

    assert isinstance(bank.features, np.memmap)
    assert not bank.features.flags.writeable
    assert not bank.class_indices.flags.writeable


def test_the_hashes_are_those_of_the_files(tmp_path: Path) -> None:
    manifest = write_bank(tmp_path / "bank").manifest

    assert manifest.features_sha256 == sha256_of(tmp_path / "bank" / "features.npy")
    assert manifest.labels_sha256 == sha256_of(tmp_path / "bank" / "labels.npy")


def test_verifying_reports_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unitail.banks.bank.CHUNK_ROWS", 5)
    progress: list[tuple[int, int]] = []
    write_bank(tmp_path / "bank").verify(lambda done, rows: progress.append((done, rows)))

    assert progress == [(5, 12), (10, 12), (12, 12)]


def _change_manifest(folder: Path, **changes: object) -> None:
    path = folder / "manifest.json"
    table = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in table.items() if value is not None}))


def _truncate(path: Path, drop: int) -> None:
    path.write_bytes(path.read_bytes()[:-drop])


def _relabel(folder: Path, value: int) -> None:
    """Change a label, and the hash with it."""
    labels = np.load(folder / "labels.npy")
    labels[0] = value
    np.save(folder / "labels.npy", labels)
    _change_manifest(folder, labels_sha256=sha256_of(folder / "labels.npy"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: (folder / "manifest.json").unlink(),
            "bank is not a feature bank: got FileNotFoundError on manifest.json; allowed: a folder "
            "with manifest.json, classes.json, features.npy and labels.npy. Make the bank again",
        ),
        (
            lambda folder: (folder / "classes.json").unlink(),
            "is not a feature bank: got FileNotFoundError on classes.json",
        ),
        (
            lambda folder: (folder / "features.npy").unlink(),
            "features.npy cannot be read: got FileNotFoundError",
        ),
        (
            lambda folder: (folder / "labels.npy").unlink(),
            "labels.npy cannot be read: got FileNotFoundError",
        ),
        (
            lambda folder: _truncate(folder / "manifest.json", 9),
            "is not a feature bank: got JSONDecodeError on manifest.json",
        ),
        (
            lambda folder: (folder / "manifest.json").write_bytes(b"\xff\xfe"),
            "is not a feature bank: got UnicodeDecodeError on manifest.json",
        ),
        (
            lambda folder: (folder / "manifest.json").write_text('{"learner": "tail"}'),
            "is not a feature bank: got a manifest.json without a format version; allowed: a table "
            "with the key format = 1",
        ),
        (
            lambda folder: _change_manifest(folder, format=2, pooled=True),
            "has another format version: got 2; allowed: 1. Update unitail",
        ),
        (
            lambda folder: _change_manifest(folder, colour="red"),
            "is wrong: unknown key in [manifest.json]: got colour; allowed: name, encoder,",
        ),
        (
            lambda folder: _change_manifest(folder, encoder=None),
            "is wrong: missing key in [manifest.json]: got name,",
        ),
        (
            lambda folder: _change_manifest(folder, rows="12"),
            "is wrong: manifest.json.rows has the wrong type: got '12'; allowed: int",
        ),
        (
            lambda folder: _change_manifest(folder, rows=0),
            "is wrong: rows is out of range: got 0; allowed: 1 or more",
        ),
        (
            lambda folder: _change_manifest(folder, dtype="float64"),
            "is wrong: manifest.json.dtype is unknown: got float64; allowed: float16, float32",
        ),
        (
            lambda folder: _change_manifest(folder, dtype="float32"),
            "features.npy does not hold the dtype in the manifest: got float16; allowed: float32",
        ),
        (
            lambda folder: _change_manifest(folder, feature_dim=7),
            "does not hold the shape in the manifest: got (12, 6); allowed: (12, 7)",
        ),
        (
            lambda folder: _truncate(folder / "features.npy", 1),
            "features.npy is truncated or has extra bytes: got 271 bytes; allowed: 272 bytes.",
        ),
        (
            lambda folder: (folder / "features.npy").write_bytes(b"not an array"),
            "features.npy cannot be read: got ValueError: the magic string is not correct",
        ),
        (
            lambda folder: np.save(folder / "features.npy", np.zeros((6, 12), np.float16).T),
            "features.npy cannot be read: got ValueError: Fortran order",
        ),
        (
            lambda folder: np.save(folder / "labels.npy", np.zeros(12, np.int64)),
            "labels.npy changed since the bank was written: got sha256 ",
        ),
        (
            lambda folder: np.save(folder / "labels.npy", np.zeros(12, np.int32)),
            "labels.npy does not hold the dtype in the manifest: got int32; allowed: int64",
        ),
        (
            lambda folder: _relabel(folder, 3),
            "labels.npy have no class name: got labels from 0 to 3; allowed: 0 to 2, with 3 class",
        ),
        (
            lambda folder: _relabel(folder, -1),
            "labels.npy have no class name: got labels from -1 to 2; allowed: 0 to 2",
        ),
        (
            lambda folder: (folder / "classes.json").write_text('["ant", "bee", "ant"]'),
            "are wrong: got 'ant' more than once; allowed: a list of distinct names",
        ),
        (
            lambda folder: (folder / "classes.json").write_text('["ant", 3, ["cow"]]'),
            "are wrong: got 3; allowed: a list of distinct names",
        ),
        (
            lambda folder: (folder / "classes.json").write_text('{"ant": 0}'),
            "are wrong: got a dict in classes.json; allowed: a list of names",
        ),
    ],
)
def test_a_damaged_bank_is_refused(
    tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    folder = write_bank(tmp_path / "bank").folder
    damage(folder)
    with pytest.raises(InvalidBank) as caught:
        FeatureBank.open(folder)
    assert message in str(caught.value)


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"")
    with pytest.raises(InvalidBank, match="is not a feature bank: got FileNotFoundError on man"):
        FeatureBank.open(tmp_path)


def test_changed_features_are_found_by_verifying(tmp_path: Path) -> None:
    folder = write_bank(tmp_path / "bank").folder
    features = np.load(folder / "features.npy", mmap_mode="r+")
    features[7, 2] += 1
    features.flush()

    bank = FeatureBank.open(folder)
    with pytest.raises(InvalidBank, match=r"features.npy changed since .* Copy or make the bank"):
        bank.verify()


def test_features_that_are_not_finite_are_found_by_verifying(tmp_path: Path) -> None:
    folder = write_bank(tmp_path / "bank").folder
    features = np.load(folder / "features.npy", mmap_mode="r+")
    features[7, 2:4] = np.nan, np.inf
    features.flush()
    _change_manifest(folder, features_sha256=sha256_of(folder / "features.npy"))

    bank = FeatureBank.open(folder)
    with pytest.raises(InvalidBank, match="are not finite: got 2 NaN or infinite values of 72"):
        bank.verify()


def test_banks_are_found_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b/two", "a/deep/one", "b/.hidden", "b/.three.part"):
        write_bank(tmp_path / name)
    write_bank(tmp_path / "b/two/inside")

    assert find_banks(tmp_path) == [tmp_path / "a/deep/one", tmp_path / "b/two"]
    assert find_banks(tmp_path / "b/two") == [tmp_path / "b/two"]
    assert find_banks(tmp_path / "b/two/inside") == [tmp_path / "b/two/inside"]


def test_no_banks_are_found_in_an_empty_folder_and_none_is_refused(tmp_path: Path) -> None:
    assert find_banks(tmp_path) == []
    with pytest.raises(InvalidBank, match="nowhere is not a folder: got no such folder"):
        find_banks(tmp_path / "nowhere")


def test_banks_are_found_by_name_and_each_name_once(tmp_path: Path) -> None:
    write_bank(tmp_path / "b", name="one", encoder="net")
    write_bank(tmp_path / "a", name="two", encoder="net")
    assert named_banks(tmp_path) == {"net/one": tmp_path / "b", "net/two": tmp_path / "a"}
    write_bank(tmp_path / "c", name="one", encoder="net")
    with pytest.raises(InvalidBank, match=r"two banks in .* are called net/one: got .*b and .*c"):
        named_banks(tmp_path)


def test_the_fingerprint_changes_with_the_rows(tmp_path: Path) -> None:
    banks = [write_bank(tmp_path / str(width), width=width) for width in (5, 6)]
    assert banks[0].fingerprint != banks[1].fingerprint
    assert banks[0].fingerprint == FeatureBank.open(tmp_path / "5").fingerprint


def test_an_encoder_of_two_names_is_one(tmp_path: Path) -> None:
    assert bank_matches("efficientnet-lite0/cub200", "efflite0/cub*")
    assert bank_matches("efflite0/cub200", "efficientnet-lite0/*")
    assert not bank_matches("efflite0/cub200", "resnet50/*")
    write_bank(tmp_path / "a", name="one", encoder="efflite0")
    write_bank(tmp_path / "b", name="one", encoder="efficientnet-lite0")
    with pytest.raises(InvalidBank, match=r"two banks in .* are called efficientnet-lite0/one"):
        named_banks(tmp_path)


def test_links_that_lead_back_are_followed_once(tmp_path: Path) -> None:
    """Three of them would else be followed some 3 ** 40 times."""
    write_bank(tmp_path / "deep" / "bank")
    for name in "abc":
        (tmp_path / "deep" / name).symlink_to(tmp_path)
    assert find_banks(tmp_path) == [tmp_path / "deep" / "bank"]
