"""What columns hold, as it looks, and as users say."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from unitail.encoders.encoder import Modality
from unitail.encoders.tables import MIN_NAMES
from unitail.errors import InvalidInput
from unitail.inputs.columns import lay_out
from unitail.inputs.encode import fit_layout
from unitail.inputs.input_encoder import ItemColumn

TEXTS = ["a small kitten sleeps", "stocks fell again today", "the old dog barks"]
TABLE = {
    "photo": ["a.jpg", "b.png", None],
    "notes": TEXTS,
    "size": [1.5, 3.0, 2.0],
    "shape": ["round", "flat", "flat"],
}


def test_each_column_is_read_as_what_it_holds() -> None:
    layout = lay_out(pd.DataFrame(TABLE), {})
    assert layout.contents == {
        "photo": ItemColumn(Modality.IMAGE, are_files=True),
        "notes": ItemColumn(Modality.TEXT),
    }
    assert layout.features == ("size", "shape")
    assert layout.unused == {}


def test_images_and_sounds_in_memory_are_items() -> None:
    pictures = pd.Series([Image.new("RGB", (2, 2)), None], dtype=object)
    sounds = pd.Series([(np.zeros(8, np.float32), 8000), None], dtype=object)
    layout = lay_out(pd.DataFrame({"picture": pictures, "sound": sounds, "x": [1.5, 2.5]}), {})
    assert layout.contents == {
        "picture": ItemColumn(Modality.IMAGE),
        "sound": ItemColumn(Modality.AUDIO),
    }


def test_beside_items_what_only_tells_rows_apart_is_left_out() -> None:
    frame = pd.DataFrame(TABLE).assign(
        number=[3, 4, 9], page_id=[7, 1, 4], code_no=["x", "y", "z"], split="train", age=[3, 8, 64]
    )
    layout = lay_out(frame, {})
    apart = "it only tells rows apart"
    assert layout.unused == {
        "number": apart,
        "page_id": apart,
        "code_no": apart,
        "split": "only one value",
    }
    assert layout.features == ("size", "shape", "age")
    said = lay_out(frame, {"number": "table"})
    assert "number" in said.features


@pytest.mark.parametrize(("rows", "apart"), [(2, False), (MIN_NAMES, False), (9, True)])
def test_few_rows_may_differ_and_rise_by_chance(rows: int, *, apart: bool) -> None:
    """That is no reason to leave a column out, unless its name is that of a row number."""
    frame = pd.DataFrame(
        {
            "notes": [f"{TEXTS[place % 3]} for the {place}th time" for place in range(rows)],
            "age": [20 + place**2 for place in range(rows)],
            "town": [f"t{place}" for place in range(rows)],
            "falls": [100 - place for place in range(rows)],
        }
    )
    layout = lay_out(frame, {})
    assert list(layout.contents) == ["notes"]
    assert layout.features == (("falls",) if apart else ("age", "town", "falls"))


def test_without_items_all_columns_are_features() -> None:
    """What says nothing is then the business of `TableEncoder`."""
    frame = pd.DataFrame({"number": [1, 2, 3], "size": [1.5, 3.0, 2.0]})
    layout = lay_out(frame, {})
    assert (layout.contents, layout.features, layout.unused) == ({}, ("number", "size"), {})


def test_names_of_people_are_no_texts() -> None:
    people = ["Braund, Mr. Owen Harris", "Cumings, Mrs. John Bradley", "Heikkinen, Miss. Laina M."]
    frame = pd.DataFrame({"name": people, "age": [22.5, 38.0, 26.0]})
    assert lay_out(frame, {}).contents == {}
    assert list(lay_out(frame, {"name": "text"}).contents) == ["name"]
    alone = lay_out(frame.assign(age=[1, 2, 3]).rename(columns={"age": "row_id"}), {})
    assert list(alone.contents) == ["name"]  # there is nothing else to go by


def test_users_decide() -> None:
    frame = pd.DataFrame(TABLE)
    chosen = {"photo": "skip", "notes": "table", "shape": "distilbert"}
    layout = lay_out(frame, chosen)
    assert layout.contents == {"shape": ItemColumn(Modality.TEXT, "distilbert")}
    assert layout.unused == {"photo": "as requested"}
    assert layout.features == ("notes", "size")
    hub = lay_out(frame, {"photo": "google/vit", "notes": "me/texts"}).contents
    assert hub["photo"] == ItemColumn(Modality.IMAGE, "google/vit", are_files=True)
    assert hub["notes"] == ItemColumn(Modality.TEXT, "me/texts")


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"no column 'phot': got 'photo', 'notes', 'size'"):
        lay_out(pd.DataFrame(TABLE), {"phot": "image"})


def test_paths_are_files() -> None:
    frame = pd.DataFrame({"clip": [Path("a.wav"), Path("b.wav")], "x": [1.5, 2.0]})
    assert lay_out(frame, {}).contents == {"clip": ItemColumn(Modality.AUDIO, are_files=True)}


def test_row_numbers_are_no_features_of_a_table_either() -> None:
    """What is called so and differs; numbers that say something, or repeat, stay."""
    frame = pd.DataFrame(
        {
            "size": [3.5, 1.5, 2.5],
            "patientID": [41, 7, 12],
            "row": [2, 1, 3],
            "Unnamed: 0": [0, 1, 2],
            "number": [4, 2, 9],
            "shop_id": [1, 1, 2],
            "grid": [1, 2, 3],
        }
    )
    layout = lay_out(frame, {})
    assert list(layout.unused) == ["patientID", "row", "Unnamed: 0"]
    assert layout.features == ("size", "number", "shop_id", "grid")
    assert "row" in lay_out(frame, {"row": "table"}).features
    assert lay_out(frame[["row"]], {}).features == ("row",), "there is nothing else"
    learned = fit_layout(layout, frame, "auto", "cpu")
    assert learned.dropped["row"] == "it only tells rows apart"
