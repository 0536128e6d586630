"""Tables with columns of texts or paths beside numbers and categories."""

from pathlib import Path

import numpy as np

from unitail.encoders.encoder import Modality
from unitail.inputs.columns import Layout
from unitail.inputs.items import ReadOptions
from unitail.inputs.read import read_labelled, read_unlabelled


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_texts_beside_features_are_used_together(tmp_path: Path) -> None:
    text = "note,age,sex,label\na bad cough,31,m,a\nfelt quite well,31,f,b\nno pain at all,8,f,b\n"
    path = _write(tmp_path / "t.csv", text)
    examples = read_labelled(path)
    assert (examples.modality, examples.content_column) == (Modality.TABLE, None)
    assert examples.layout is not None
    assert (list(examples.layout.contents), examples.layout.features) == (["note"], ("age", "sex"))
    assert examples.guesses == ("'note' holds texts; to change this: --column NAME=KIND",)
    assert list(examples.items.columns) == ["note", "age", "sex"]
    assert examples.items["note"].tolist()[0] == "a bad cough"
    assert read_labelled(path, ReadOptions(content_column="note")).items[:2] == (
        "a bad cough",
        "felt quite well",
    )
    features = read_labelled(path, ReadOptions(modality=Modality.TABLE)).layout
    assert features == Layout({}, ("note", "age", "sex"), {})
    said = read_labelled(path, ReadOptions(columns={"note": "text", "age": "skip"}))
    assert said.layout is not None
    assert (said.layout.features, said.guesses) == (("sex",), ())


def test_queries_are_laid_out_as_the_examples(tmp_path: Path) -> None:
    """Other rows of a table may look otherwise: numbers there, short texts here."""
    text = "note,age,label\na bad cough,31,a\nfelt quite well,8,b\nno pain today,9.5,b\n"
    examples = read_labelled(_write(tmp_path / "t.csv", text))
    new = _write(tmp_path / "new.csv", "more,age,note\nx,old,\ny,7,fine\n")
    asked = read_unlabelled([new], like=examples)
    assert asked.layout is examples.layout
    assert asked.items["note"].tolist() == [None, "fine"]
    np.testing.assert_array_equal(asked.items["age"], [np.nan, 7])
    assert asked.ignored == (
        "1 cell of 'age' without a number ('old')",
        "1 empty cell of 'note'",
        "1 column (more)",
    )
    assert len(asked.records) == 2


def test_two_texts_are_used_together(tmp_path: Path) -> None:
    text = "title,body,label\na b c,d e f,x\ng h i,j k l,y\n"
    path = _write(tmp_path / "t.csv", text)
    examples = read_labelled(path)
    assert examples.layout is not None
    assert list(examples.layout.contents) == ["title", "body"]
    assert read_labelled(path, ReadOptions(content_column="body")).items[1] == "j k l"
