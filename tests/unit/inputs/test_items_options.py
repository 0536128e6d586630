from unitail.encoders.encoder import Modality
from unitail.inputs.items import LabelledItems, ReadOptions

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
    assert said.like(None) == ReadOptions("kind")


def test_given_options_count() -> None:
    said = ReadOptions(content_column="body", modality=Modality.IMAGE)
    assert said.like(EXAMPLES) == ReadOptions("label", "body", Modality.IMAGE)
    assert ReadOptions(one_column=True).like(None).one_column
