import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from helpers.sounds import KINDS, write_sounds
from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Modality
from unitail.errors import UnknownEncoder
from unitail.inputs.read import read_labelled
from unitail.workflows.fit import ClassifierOptions
from unitail.workflows.learning_curve import splits as own_splits
from unitail.workflows.learning_curve.data import TABLE_NOTE, encode_own


def test_files_become_rows(tmp_path: Path) -> None:
    folder, cache = write_sounds(tmp_path / "sounds"), FeatureCache(tmp_path / "cache")
    progress: list[tuple[int, int]] = []
    data = encode_own(
        read_labelled(folder), cache=cache, on_progress=lambda *now: progress.append(now)
    )
    assert data.classes == tuple(sorted(KINDS))
    assert data.rows.features.shape == (12, 240)
    assert data.rows.shots.tolist() == [4, 4, 4]
    assert (data.modality, data.encoder, data.notes) == (Modality.AUDIO, "log-mel", ())
    assert progress[-1] == (12, 12)
    again = encode_own(read_labelled(folder), cache=cache)
    assert (again.rows.features == data.rows.features).all()
    assert cache.info().entries == 12


def test_what_cannot_be_read_is_reported_and_equal_files_count_once(tmp_path: Path) -> None:
    folder = write_sounds(tmp_path / "sounds")
    (folder / "hum" / "broken.wav").write_bytes(b"RIFF")
    (folder / "gone").mkdir()
    (folder / "gone" / "broken.wav").write_bytes(b"RIFF")
    shutil.copy(folder / "hum" / "0.wav", folder / "hum" / "copy.wav")
    shutil.copy(folder / "hum" / "1.wav", folder / "hiss" / "other.wav")
    data = encode_own(read_labelled(folder))
    assert [item.name for item in data.unreadable] == ["gone/broken.wav", "hum/broken.wav"]
    assert data.classes == tuple(sorted(KINDS))
    assert dict(zip(data.classes, data.rows.shots, strict=True)) == {"beep": 4, "hiss": 5, "hum": 4}
    assert data.notes == ("1 example equal to another of the same class: left out",)


def test_rows_of_a_table_may_be_equal(tmp_path: Path) -> None:
    table = pd.DataFrame({"size": [1, 1, 2, 5, 6, 7], "same": 3, "label": list("aaabbb")})
    table.to_csv(tmp_path / "table.csv", index=False)
    data = encode_own(read_labelled(tmp_path / "table.csv"))
    assert data.rows.shots.tolist() == [3, 3]
    assert data.encoder == "columns"
    assert data.notes == ("Column 'same' is not used: only one value", TABLE_NOTE)
    with pytest.raises(UnknownEncoder, match="tables have one encoder: got 'minilm'"):
        encode_own(read_labelled(tmp_path / "table.csv"), ClassifierOptions(encoder="minilm"))


def test_classes_that_cannot_be_asked_about_are_reported(tmp_path: Path) -> None:
    table = pd.DataFrame({"size": np.arange(7), "label": [*"aab", "bc", "bd", *"bb"]})
    table.to_csv(tmp_path / "table.csv", index=False)
    notes = encode_own(read_labelled(tmp_path / "table.csv")).notes
    assert notes[-1] == "Not tested, as they have only one example: bc, bd"


def test_of_very_many_rows_some_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_splits, "MAX_ROWS", 20)
    table = pd.DataFrame({"size": np.arange(60), "label": ["a"] * 10 + ["b"] * 50})
    table.to_csv(tmp_path / "table.csv", index=False)
    data = encode_own(read_labelled(tmp_path / "table.csv"))
    assert data.rows.shots.tolist() == [10, 10]
    drawn = "20 of 60 examples were drawn for the estimate, at most 10 per class"
    assert data.notes == (TABLE_NOTE, drawn)
    assert len(data.names) == 20
    assert data.names[:2] == ("row 1", "row 2")
