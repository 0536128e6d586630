from pathlib import Path

from unitail.encoders.encoder import Modality
from unitail.inputs.items import LabelledItems, ReadOptions
from unitail.inputs.read import read_labelled, read_unlabelled

EXAMPLES = LabelledItems(
    items=("x", "y"),
    names=("x", "y"),
    modality=Modality.TEXT,
    content_column="note",
    labels=("a", "b"),
)


def test_options_that_are_not_given_are_those_of_the_examples() -> None:
    said = ReadOptions("kind", columns={"note": "text"})
    assert said.like(EXAMPLES) == ReadOptions("kind", "note", Modality.TEXT)  # and no columns
    assert said.like(None) == said


def test_given_options_count() -> None:
    said = ReadOptions(content_column="body", modality=Modality.IMAGE)
    assert said.like(EXAMPLES) == ReadOptions("label", "body", Modality.IMAGE)
    assert ReadOptions(one_column=True).like(None).one_column


def test_chosen_columns_count_with_examples_and_without(tmp_path: Path) -> None:
    rows = "".join(f"{n * n},{n},{'ab'[n % 2]}\n" for n in range(30))
    table = tmp_path / "t.csv"
    table.write_text("x,id,label\n" + rows)
    assert list(read_unlabelled([table]).items) == ["x"]  # type: ignore[call-overload]
    options = ReadOptions(columns={"id": "table"})
    assert list(read_unlabelled([table], options).items) == ["x", "id"]  # type: ignore[call-overload]
    examples = read_labelled(table, options)
    for like in (examples.items, read_unlabelled([table], options, like=examples).items):
        assert list(like) == ["x", "id"]  # type: ignore[call-overload]
