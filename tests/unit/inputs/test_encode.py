from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from helpers.colours import MeanColour
from helpers.letters import Letters
from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Modality
from unitail.inputs import encode as road
from unitail.inputs.encode import (
    Among,
    Unread,
    encode,
    fit_encoder,
    unread_items,
)
from unitail.inputs.input_encoder import ItemEncoder
from unitail.inputs.items import Items

pytestmark = pytest.mark.usefixtures("cache")


def _images(folder: Path, *reds: int | None) -> Items:
    """Write an image for each shade of red; None is a file that is none."""
    folder.mkdir()
    paths = [folder / f"{place}.png" for place in range(len(reds))]
    for path, red in zip(paths, reds, strict=True):
        if red is None:
            path.write_bytes(b"")
        else:
            Image.new("RGB", (2, 2), (red, 0, 0)).save(path)
    return Items(items=paths, names=tuple(path.name for path in paths), modality=Modality.IMAGE)


def _table(*sizes: float) -> pd.DataFrame:
    return pd.DataFrame({"size": sizes})


def test_each_input_gets_its_own_vectors_and_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: FeatureCache
) -> None:
    monkeypatch.setattr(road, "make_encoder", lambda *_, **__: MeanColour())
    support = _images(tmp_path / "s", 0, None, 255)
    queries = _images(tmp_path / "q", None, 51)
    by = fit_encoder("auto", support.items, Modality.IMAGE)
    encode(by, support.items[:1], cache=cache)
    known, asked = encode(by, support.items, queries.items, on_unreadable="skip", cache=cache)
    np.testing.assert_allclose(known.features[:, 0], [0, 1])
    assert known.kept.tolist() == [0, 2]
    assert (known.num_cached, asked.num_cached) == (1, 0)
    np.testing.assert_allclose(asked.features[:, 0], [0.2])
    assert asked.kept.tolist() == [1]
    [unread] = unread_items(Among.EXAMPLES, support, known)
    assert unread.reason.startswith("cannot be read as an image: got")
    assert unread == Unread(Among.EXAMPLES, "1.png", unread.reason, 1)
    assert unread_items(Among.FILES, queries, asked) == (
        Unread(Among.FILES, "0.png", unread.reason, 0),
    )


def test_columns_are_learned_from_the_first_table_alone() -> None:
    progress: list[tuple[int, int]] = []
    by = fit_encoder("auto", _table(0, 2), Modality.TABLE)
    first, second = encode(
        by, _table(0, 2), _table(1, 3, 5), on_progress=lambda *now: progress.append(now)
    )
    assert first.features.tolist() == [[-1], [1]]
    assert second.features.tolist() == [[0], [2], [4]]
    assert second.kept.tolist() == [0, 1, 2]
    assert (by.name, by.notes, progress) == ("columns", (), [(5, 5)])


def test_columns_that_say_nothing_are_noted() -> None:
    by = fit_encoder("auto", pd.DataFrame({"a": [1, 2], "b": [3, 3]}), Modality.TABLE)
    assert by.notes == ("Column 'b' is not used: only one value",)


def test_strings_of_known_modality_are_never_taken_for_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("bb")
    by = ItemEncoder(encoder=Letters(), named=False)
    [vectors] = encode(by, [str(tmp_path / "a.txt"), tmp_path / "a.txt"])
    assert vectors.features[0, 0] > 0  # the letters of the name
    assert vectors.features[1].tolist() == [0, 2]
