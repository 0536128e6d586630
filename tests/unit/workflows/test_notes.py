from pathlib import Path

from helpers.letters import Letters
from unitail.encoders.encoder import Modality
from unitail.inputs.encode import fit_encoder
from unitail.inputs.input_encoder import ItemEncoder
from unitail.inputs.read import read_labelled, read_unlabelled
from unitail.workflows.notes import beyond_examples, long_texts


def test_columns_beyond_the_examples_are_named(tmp_path: Path) -> None:
    rows = "".join(f"2021-01-{day:02},{day % 5},{'ab'[day % 2]}\n" for day in range(1, 11))
    known, asked = tmp_path / "t.csv", tmp_path / "q.csv"
    known.write_text("when,x,label\n" + rows)
    asked.write_text("when,x\n2021-01-05,2\n2022-01-05,9\n2023-01-05,\n")
    examples = read_labelled(known)
    by = fit_encoder("auto", examples.items, Modality.TABLE)
    items = read_unlabelled([asked], like=examples).items
    [note] = beyond_examples(by, examples.items, items)
    assert note.startswith("Most values of 'when' lie outside the range of the examples")
    assert note.endswith("--column when=skip")
    assert not beyond_examples(by, examples.items, items.iloc[:2])
    assert not beyond_examples(by, examples.items.iloc[:0], items)


def test_cut_texts_are_mentioned_in_a_note() -> None:
    encoder = Letters()
    encoder.max_words = 3
    by = ItemEncoder(encoder=encoder, named=False)
    assert long_texts(by, ["a b c", "a b c d"], ["one two  three four"]) == (
        "2 texts read up to word 3 at most",
    )
    assert long_texts(by, ["a b c"]) == ()
    encoder.max_words = None
    assert long_texts(by, ["a b c d"]) == ()
