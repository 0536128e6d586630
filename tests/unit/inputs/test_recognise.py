from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from PIL import Image
from scipy.sparse import csr_array

from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput
from unitail.inputs.recognise import are_files, listed, recognise
from unitail.inputs.table_files import decode

PIXELS = np.zeros((4, 5, 3), np.uint8)
SOUND = (np.zeros(100, np.float32), 8000)


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([Path("a.png"), Path("b.JPG")], Modality.IMAGE),
        ([Path("a.wav")], Modality.AUDIO),
        ([Path("a.txt")], Modality.TEXT),
        (["hello", "a.png"], Modality.TEXT),
        (["notes.txt", "more.txt"], Modality.TEXT),
        (["a.png", "b.jpg"], Modality.IMAGE),
        (np.array(["hello", "world"]), Modality.TEXT),
        (np.array(["hello", "world"], dtype=object), Modality.TEXT),
        (pandas.Series(["hello", "world"]), Modality.TEXT),
        ([Image.new("L", (2, 2))], Modality.IMAGE),
        ([PIXELS, PIXELS[:2]], Modality.IMAGE),
        ([PIXELS / 255.0], Modality.IMAGE),
        ([PIXELS[:, :, 0]], Modality.IMAGE),
        (np.stack([PIXELS, PIXELS]), Modality.IMAGE),
        (np.stack([PIXELS[:, :, 0]]), Modality.IMAGE),
        ([SOUND, SOUND], Modality.AUDIO),
        (pandas.DataFrame({"a": [1, 2]}), Modality.TABLE),
        ([[1.0, 2.0], [3.0, 4.0]], None),
        ([(1.0, 2.0), (3.0, 4.0)], None),
        ([np.zeros(3), np.ones(3)], None),
        (np.zeros((2, 3)), None),
        (np.zeros((2, 3), np.uint8), None),
        (np.zeros((2, 3, 4)), None),
        (torch.zeros(2, 3), None),
        (csr_array((2, 3)), None),
        ([1.0, 2.0], None),
        ([], None),
    ],
)
def test_kinds_are_recognised(rows: Any, kind: Modality | None) -> None:  # noqa: ANN401
    assert recognise(rows) is kind


def test_strings_may_be_mixed_with_paths_if_they_are_files() -> None:
    assert recognise(["a.png", Path("b.png")]) is Modality.IMAGE


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["hello", Path("b.png")], "several kinds: got text and image; allowed: items of one"),
        ([Path("a.wav"), Path("b.png")], "several kinds: got audio and image"),
        ([Image.new("L", (2, 2)), [1.0]], "several kinds: got image and vector"),
        ([Path("a.xyz")], r"a\.xyz is not recognised by its suffix: got \.xyz; allowed: image: "),
        ([Path("a")], "got no suffix"),
        ([{"a": 1}], "a type that is not recognised: got dict; allowed: vectors, paths"),
        ([b"abc"], "got bytes.*name the encoder"),
        ("hello", "X is not a list of items: got str; allowed: a list of paths"),
        (Path("folder"), "X is not a list of items: got PosixPath"),
        ({"a": 1}, "X is not a list of items: got dict"),
    ],
)
def test_what_is_not_recognised_is_refused(rows: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidInput, match=message):
        recognise(rows)


def test_names_of_texts_are_files_if_all_exist(tmp_path: Path) -> None:
    names = [str(tmp_path / "ä b.txt"), str(tmp_path / "c.md")]
    for name in names:
        assert not are_files(names)
        Path(name).write_text("")
    assert are_files(names)
    assert not are_files([*names, "a text"])
    assert not are_files([*names, "x" * 10_000 + ".txt", "nul\0.txt"])
    assert not are_files([str(tmp_path)])
    Path(tmp_path / "d.pdf").write_text("")
    assert not are_files([*names, str(tmp_path / "d.pdf")])


def test_names_of_images_are_files_even_if_missing() -> None:
    assert not are_files(["two lines\nof a.png"])
    assert are_files(["a.png", "b.wav"])
    assert not are_files(["a.png", "see b.pdf"])
    assert not are_files([])
    assert not are_files([Path("a.png"), 3])


def test_a_table_is_no_list() -> None:
    with pytest.raises(InvalidInput, match=r"got DataFrame; .*tables need encoder='auto'"):
        listed(pandas.DataFrame({"a": [1]}))


@pytest.mark.parametrize("gap", [None, float("nan"), pandas.NA])
def test_a_gap_among_texts_is_named(gap: object) -> None:
    with pytest.raises(InvalidInput, match=r"X has 1 missing item: got .* at index 1"):
        recognise(["a cat", gap])
    assert recognise([[1.0, float("nan")], [2.0, 3.0]]) is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("cells", ["דבר רע,a\nדבר טוב,b", "一个人 一,a\n这是 一次,b"])
def test_other_alphabets_are_read_in_utf_16_without_a_mark(cells: str, encoding: str) -> None:
    text = f"דבר,label\n{cells}\n"
    assert decode(text.encode(encoding), "it") == text


@pytest.mark.parametrize("content", [b"text,label\nwell\0,a\n", "ab,c\n".encode("utf-32-le")])
def test_zeros_are_no_text(content: bytes) -> None:
    with pytest.raises(InvalidInput, match="it is not text in UTF-8: got byte 0x00 at offset"):
        decode(content, "it")
