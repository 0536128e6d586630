from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from helpers.colours import MeanColour
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidSource, UnknownEncoder
from unitail.inputs import encode as vectors
from unitail.inputs.encode import Unread, encode_sources
from unitail.inputs.sources import Items


@pytest.fixture(autouse=True)
def colour_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "make_encoder", lambda *_, **__: MeanColour())


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


def _table(*sizes: float) -> Items:
    names = tuple(f"row {place}" for place in range(len(sizes)))
    return Items(items=pd.DataFrame({"size": sizes}), names=names, modality=Modality.TABLE)


def test_each_source_gets_its_own_vectors_and_places(tmp_path: Path) -> None:
    sources = {
        "support": _images(tmp_path / "s", 0, None, 255),
        "queries": _images(tmp_path / "q", None, 51),
    }
    found = encode_sources(sources)
    support, queries = found.parts
    np.testing.assert_allclose(support.features[:, 0], [0, 1])
    assert support.places.tolist() == [0, 2]
    np.testing.assert_allclose(queries.features[:, 0], [0.2])
    assert queries.places.tolist() == [1]
    reason = found.unreadable[0].reason
    assert reason.startswith("cannot be read as an image: got")
    assert found.unreadable == (
        Unread("support", "1.png", reason),
        Unread("queries", "0.png", reason),
    )


def test_columns_are_learned_from_the_first_table_alone() -> None:
    told: list[tuple[int, int]] = []
    found = encode_sources(
        {"a": _table(0, 2), "b": _table(1, 3, 5)}, on_progress=lambda *now: told.append(now)
    )
    first, second = found.parts
    assert first.features.tolist() == [[-1], [1]]
    assert second.features.tolist() == [[0], [2], [4]]
    assert second.places.tolist() == [0, 1, 2]
    assert (found.encoder, told) == ("columns", [(5, 5)])
    with pytest.raises(UnknownEncoder, match="tables have one encoder: got 'minilm'"):
        encode_sources({"a": _table(0, 2)}, encoder="minilm")


def test_sources_of_several_kinds_are_refused(tmp_path: Path) -> None:
    sources = {"support": _table(0, 2), "queries": _images(tmp_path / "q", 1)}
    with pytest.raises(InvalidSource, match="got image; allowed: table"):
        encode_sources(sources)
