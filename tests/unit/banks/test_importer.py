import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unitail.banks import importer
from unitail.banks.importer import import_bank
from unitail.errors import InvalidBank, InvalidConfig

REAL = Path(__file__).parents[4] / "shared" / "data" / "banks"
ROWS, WIDTH = 50, 9


def _coded(code: str) -> dict[str, Any]:
    """Return every code that there is, and some more."""
    kind = np.uint8 if code == "sqrt" else np.int8
    codes = np.resize(np.arange(256, dtype=np.uint8).view(kind), (ROWS, WIDTH))
    return {
        "q": codes,
        "scale": np.float32(3.7),
        "code": code,
        "y": (np.arange(ROWS) % 3).astype(np.int16),
        "classes": np.array(["ant", "bee", "crème"]),
    }


def _save(path: Path, **arrays: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)
    return path


def _formula(path: Path) -> np.ndarray:
    """Decode as the note that comes with the files describes."""
    with np.load(path) as bank:
        codes, scale = bank["q"].astype(np.float32), float(bank["scale"])
        return (codes / 255) ** 2 * scale if str(bank["code"]) == "sqrt" else codes / 127 * scale


@pytest.mark.parametrize("code", ["sqrt", "linear"])
def test_both_codings_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr("unitail.banks.importer.CHUNK_ROWS", 7)
    path = _save(tmp_path / "toy" / "animals.npz", **_coded(code))
    progress: list[tuple[int, int]] = []
    bank = import_bank(path, tmp_path / "bank", on_progress=lambda *now: progress.append(now))

    assert bank.features.dtype == np.float16
    assert np.array_equal(bank.features, _formula(path).astype(np.float16))
    assert np.array_equal(bank.class_indices, np.arange(ROWS) % 3)
    assert bank.class_names == ("ant", "bee", "crème")
    assert progress[0] == (7, ROWS)
    assert progress[-1] == (ROWS, ROWS)
    bank.verify()


def test_names_come_from_the_path_unless_given(tmp_path: Path) -> None:
    path = _save(tmp_path / "toy" / "animals.npz", **_coded("sqrt"))
    plain = import_bank(path, tmp_path / "plain")
    named = import_bank(
        path, tmp_path / "named", encoder="net", name="zoo", licence="CC0", encoder_revision="v2"
    )

    assert (plain.encoder, plain.name, plain.manifest.licence) == ("toy", "animals", "")
    assert (named.encoder, named.name, named.manifest.licence) == ("net", "zoo", "CC0")
    assert named.manifest.encoder_revision == "v2"
    assert plain.manifest.source.startswith("animals.npz, 8 bits, coding sqrt, sha256 ")


def test_an_interrupted_import_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unitail.banks.importer.CHUNK_ROWS", 20)
    path = _save(tmp_path / "toy" / "animals.npz", **_coded("linear"))

    def stop(done: int, rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_bank(path, tmp_path / "bank", on_progress=stop)
    progress: list[int] = []
    bank = import_bank(
        path, tmp_path / "bank", on_progress=lambda done, rows: progress.append(done)
    )

    assert progress == [40, 50]
    assert np.array_equal(bank.features, _formula(path).astype(np.float16))


def test_the_same_bank_is_only_opened_and_another_one_refused(tmp_path: Path) -> None:
    path = _save(tmp_path / "toy" / "animals.npz", **_coded("sqrt"))
    before = import_bank(path, tmp_path / "bank").folder.stat().st_mtime_ns
    assert import_bank(path, tmp_path / "bank").folder.stat().st_mtime_ns == before

    message = r"bank does not match: got licence = ''; allowed: licence = 'MIT'\. Delete it to"
    with pytest.raises(InvalidBank, match=message):
        import_bank(path, tmp_path / "bank", licence="MIT")
    _save(path, **{**_coded("sqrt"), "scale": np.float32(3.8)})
    with pytest.raises(InvalidBank, match=r"bank does not match: got source = 'animals.npz, 8 bit"):
        import_bank(path, tmp_path / "bank")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"code": "cubic"},
            "code in .*npz is not valid in a coded bank: got 'cubic'; allowed: sqrt",
        ),
        ({"code": "linear"}, "q in .*: got uint8; allowed: int8 with the coding linear"),
        ({"q": np.zeros(ROWS, np.uint8)}, r"q in .*: got shape \(50,\); allowed: \(rows, width\)"),
        ({"q": np.uint8(1)}, r"q in .*: got shape \(\); allowed"),
        ({"q": np.zeros((0, WIDTH), np.uint8)}, r"q in .*: got shape \(0, 9\); allowed"),
        ({"scale": np.float32(np.nan)}, "scale in .*: got nan; allowed: one number above 0, up to"),
        ({"scale": 1e6}, "scale in .*: got 1000000.0; allowed: one number above 0, up to 65504"),
        ({"scale": np.ones(2)}, r"scale in .*: got \[1. 1.\]; allowed: one number"),
        ({"y": np.zeros(49, int)}, r"y in .*: got int64 of shape \(49,\); allowed: integers"),
        ({"y": np.array(["a"] * ROWS)}, "y in .*: got <U1 of shape"),
        ({"y": np.full(ROWS, 3)}, "y in .*: got values from 3 to 3; allowed: 0 to 2"),
        ({"y": np.full(ROWS, -1)}, "y in .*: got values from -1 to -1; allowed: 0 to 2"),
        ({"classes": np.arange(3)}, r"classes in .*: got int64 of shape \(3,\); allowed: a list"),
        ({"classes": np.array(["a", "a", "b"])}, "got 'a' more than once"),
        (
            {"classes": np.array([None, {}], object)},
            "cannot be read: got ValueError: Python objects",
        ),
    ],
)
def test_foreign_arrays_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = _save(tmp_path / "toy" / "animals.npz", **{**_coded("sqrt"), **change})
    with pytest.raises(InvalidBank, match=message):
        import_bank(path, tmp_path / "bank")
    assert [each.name for each in tmp_path.iterdir()] == ["toy"]  # nothing half-done is left


def _flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("q.npy").header_offset + 150
    data[place] ^= 0xFF
    path.write_bytes(data)


def _shorten_codes(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data[:-1] if name == "q.npy" else data)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "got FileNotFoundError"),
        (lambda path: path.write_bytes(b"hello"), "got BadZipFile: File is not a zip file"),
        (lambda path: path.write_bytes(path.read_bytes()[:300]), "got BadZipFile"),
        (lambda path: _save(path, a=np.zeros(3)), "got ValueError: no q, scale, code, y, classes"),
        (_flip_a_byte, "got (ValueError: q.npy is damaged|error: Error -3)"),
        (_shorten_codes, "got ValueError: q does not have the size in its header"),
    ],
)
def test_a_broken_archive_is_refused(
    tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    path = _save(tmp_path / "toy" / "animals.npz", **_coded("sqrt"))
    damage(path)
    expected = rf"animals.npz cannot be read: {message}.*; allowed: an .npz file with q, scale"
    with pytest.raises(InvalidBank, match=expected):
        import_bank(path, tmp_path / "bank")
    assert [each.name for each in tmp_path.iterdir()] == ["toy"]


def test_an_empty_encoder_is_refused(tmp_path: Path) -> None:
    path = _save(tmp_path / "toy" / "animals.npz", **_coded("sqrt"))
    with pytest.raises(InvalidConfig, match="encoder is out of range: got nothing; allowed: the"):
        import_bank(path, tmp_path / "bank", encoder="")


@pytest.mark.skipif(not REAL.is_dir(), reason=f"real banks are not in {REAL}")
@pytest.mark.parametrize(
    ("file", "width", "classes"),
    [("efflite0/flowers5", 1280, 5), ("minilm/imdb", 384, 2), ("resnet50/rsscn7", 2048, 7)],
)
def test_real_banks_are_imported(tmp_path: Path, file: str, width: int, classes: int) -> None:
    path = REAL / f"{file}.npz"
    bank = import_bank(path, tmp_path / "bank")

    assert f"{bank.encoder}/{bank.name}" == file
    assert (bank.feature_dim, len(bank.class_names)) == (width, classes)
    assert np.array_equal(bank.features, _formula(path).astype(np.float16))
    assert bank.class_sizes.min() >= 30
    bank.verify()


def _npz(path: Path, kind: int = zipfile.ZIP_DEFLATED, **changes: bytes) -> Path:
    """Write an archive some of whose members are other bytes."""
    with zipfile.ZipFile(_save(path, **_coded("sqrt"))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(name, changes.get(name.removesuffix(".npy"), content))
    return path


def test_a_small_archive_does_not_take_all_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"{'descr': '<U500000000', 'fortran_order': False, 'shape': (9,), }\n"
    names = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(1000)
    path = _npz(tmp_path / "toy" / "animals.npz", classes=names)
    with pytest.raises(InvalidBank, match=r"classes.npy does not have the size in its header"):
        import_bank(path, tmp_path / "bank")
    monkeypatch.setattr(importer, "MAX_MEMBER_BYTES", 500)
    path = _npz(tmp_path / "toy" / "animals.npz", classes=bytes(5000))
    with pytest.raises(InvalidBank, match=r"classes.npy has 5,000 bytes, more than 500"):
        import_bank(path, tmp_path / "bank")


def test_an_archive_that_is_locked_is_reported(tmp_path: Path) -> None:
    path = _npz(tmp_path / "toy" / "animals.npz", zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    for at in range(len(data) - 4):
        if data[at : at + 4] == b"PK\1\2":
            data[at + 8] |= 1  # encrypted
    path.write_bytes(bytes(data))
    with pytest.raises(InvalidBank, match=r"cannot be read: got RuntimeError: .*encrypted"):
        import_bank(path, tmp_path / "bank")
