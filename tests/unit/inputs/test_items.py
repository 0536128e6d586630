from pathlib import Path

import numpy as np
import pytest

from unitail.encoders.encoder import Modality, Vectors
from unitail.errors import InvalidInput
from unitail.inputs.items import LabelledItems, ReadOptions, apply_corrections
from unitail.inputs.read import read_half_labelled, read_labelled, read_unlabelled


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_records_follow_their_items_through_several_inputs(tmp_path: Path) -> None:
    paths = [
        _write(tmp_path / "x.csv", "text,id\n,1\nhow are you,2\n"),
        _write(tmp_path / "y.txt", "a text of its own"),
        _write(tmp_path / "z" / "0.txt", "and another one"),
        _write(tmp_path / "w.csv", "text\nsee you soon\n\nnever,\n".replace("never,", "never")),
    ]
    items = read_unlabelled(paths)
    assert [record.item for record in items.records] == [None, 0, 1, 2, 3, 4]
    assert [record.row for record in items.records] == [1, 2, None, None, 1, 2]
    for record in items.records:
        if record.item is not None:
            shown = record.cells.get("text") or record.cells["file"]
            assert str(items.items[record.item]) == shown


def test_examples_of_several_places_and_the_last_is_right(tmp_path: Path) -> None:
    for name in ("a/1.txt", "a/2.txt", "b/1.txt"):
        _write(tmp_path / "box" / name, name)
    _write(tmp_path / "new" / "3.txt", "3")
    fix = _write(tmp_path / "fix.csv", "file,label\nbox/a/../a/2.txt,b\nnew/3.txt,c\n")
    examples = read_labelled(tmp_path / "box", also=[fix])
    assert [
        (path.name, label) for path, label in zip(examples.items, examples.labels, strict=True)
    ] == [
        ("1.txt", "a"),
        ("1.txt", "b"),
        ("2.txt", "b"),
        ("3.txt", "c"),
    ]
    assert "1 example replaced by a later one" in examples.ignored


def test_corrections_may_be_of_one_class_and_are_read_as_the_first(tmp_path: Path) -> None:
    first = _write(tmp_path / "s.csv", "code,size,label\nx,1,a\ny,2,b\n")
    fix = _write(tmp_path / "fix.csv", "size,code,label\n3,7,b\n4,8,\n")
    examples = read_labelled(first, also=[fix])
    assert examples.items["code"].tolist() == ["x", "y", "7"]
    assert examples.items["size"].tolist() == [1, 2, 3]
    assert examples.labels == ("a", "b", "b")


def test_examples_of_another_kind_are_refused(tmp_path: Path) -> None:
    first = _write(tmp_path / "s.csv", "text,label\nhow are you,a\nsee you soon,b\n")
    (tmp_path / "box" / "a").mkdir(parents=True)
    (tmp_path / "box" / "a" / "x.png").write_bytes(b"")
    with pytest.raises(InvalidInput, match="holds no text files"):
        read_labelled(first, also=[tmp_path / "box"])


def test_only_what_was_corrected_is_not_asked_again(tmp_path: Path) -> None:
    for name in ("a/1.txt", "b/1.txt", "b/2.txt"):
        _write(tmp_path / "box" / name, name)
    fix = _write(tmp_path / "fix.csv", "file,label\nbox/b/2.txt,c\n")
    examples = read_labelled(tmp_path / "box", also=[fix])
    queries = apply_corrections(read_unlabelled([tmp_path / "box"], like=examples), examples)
    assert queries.names == ("a/1.txt", "b/1.txt")
    assert queries.given == ((tmp_path / "box/b/2.txt", "c"),)
    assert [(record.item, record.label) for record in queries.records] == [
        (0, "a"),
        (1, "b"),
        (None, "c"),
    ]


def test_a_correction_that_is_corrected_leaves_one_correction(tmp_path: Path) -> None:
    first = _write(tmp_path / "t.csv", "size,colour,label\n1.5,red,tall\n2.5,blue,small\n")
    old = _write(tmp_path / "a.csv", "size,colour,label\n7.5,red,small\n")
    new = _write(tmp_path / "b.csv", "size,colour,label\n7.5,red,tall\n")
    examples = read_labelled(first, also=[old, new])
    assert (examples.labels, examples.num_corrections) == (("tall", "small", "tall"), 1)
    asked = _write(tmp_path / "q.csv", "size,colour\n2.5,blue\n7.5,red\n")
    queries = apply_corrections(read_unlabelled([asked], like=examples), examples)
    assert queries.given == (((7.5, "red"), "tall"),)


def test_rows_with_the_same_cells_are_replaced_and_not_answered_again(tmp_path: Path) -> None:
    table = "size,colour,label\n1.0,red,tall\n,blue,small\n3,red,\n4,blue,\n"
    first = _write(tmp_path / "t.csv", table)
    answers = "colour,size,label,answer,probability,state,set,novelty,reason\n"
    rows = ("red,1,small", "blue,,tall", "red,3,small", "blue,4,")
    also = _write(tmp_path / "a.csv", answers + "".join(f"{row},a,1,x,a,0,\n" for row in rows))
    examples = read_labelled(first, also=[also])
    assert examples.labels == ("small", "tall", "small")
    assert examples.items["size"].isna().tolist() == [False, True, False]
    assert "2 examples replaced by a later one" in examples.ignored
    queries = apply_corrections(read_half_labelled(first, examples), examples)
    assert queries.items["size"].tolist() == [4]
    assert queries.given == (((3.0, "red"), "small"),)
    assert [record.item for record in queries.records] == [None, None, None, 0]
    assert queries.records[2].label == "small"


def test_rows_of_a_mixed_table_are_compared_by_all_their_cells(tmp_path: Path) -> None:
    for name in ("1.txt", "2.txt"):
        _write(tmp_path / name, name)
    first = _write(tmp_path / "t.csv", "file,size,label\n1.txt,1,a\n1.txt,2,b\n2.txt,1,b\n")
    also = _write(tmp_path / "sub" / "a.csv", f"file,size,label\n{tmp_path}/sub/../1.txt,1,c\n")
    examples = read_labelled(first, ReadOptions(columns={"file": "text"}), also=[also])
    assert examples.labels == ("b", "b", "c")


def test_equal_examples_are_contradictions_only_with_different_labels() -> None:
    examples = LabelledItems(
        items=["p", "q", "r", "s", "t"],
        names=("p", "q", "r", "s", "t"),
        labels=("a", "a", "b", "b", "a"),
        modality=Modality.TEXT,
    )
    rows = np.array([[1, 2], [1, 2], [3, 4], [5, 6]], dtype=np.float32)
    places = np.array([0, 1, 2, 4])
    is_cached = np.zeros(4, bool)
    assert examples.contradictions(Vectors(features=rows, kept=places, cached=is_cached)) == ()
    rows[3] = rows[2]
    assert examples.contradictions(Vectors(features=rows, kept=places, cached=is_cached)) == (
        "Equal examples with different labels: r (b) = t (a)",
    )
