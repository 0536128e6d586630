import json
import pickle
from pathlib import Path

import numpy as np
import pandas
import pytest

from helpers.letters import Letters
from unitail.encoders.tables import TableEncoder
from unitail.errors import InvalidCheckpoint
from unitail.inputs.encode import choose_encoder, fit_layout, vectors_of
from unitail.inputs.input_encoder import (
    ItemEncoder,
    MixedEncoder,
    TablePart,
    describe_encoder,
    restore_encoder,
)
from unitail.inputs.read import read_labelled, read_unlabelled

pytestmark = pytest.mark.usefixtures("cache")
SOUNDS = [(np.sin(np.arange(8000) * pitch).astype(np.float32), 8000) for pitch in (0.1, 0.5)]


def test_vectors_need_no_encoder() -> None:
    assert describe_encoder(None) is None
    assert restore_encoder(None, None, "cpu") is None


def test_what_was_learned_of_a_table_is_restored() -> None:
    frame = pandas.DataFrame({"size": [0.0, 2.0], "colour": ["red", "blue"]})
    fitted = choose_encoder("auto", frame, "cpu")
    table = json.loads(json.dumps(describe_encoder(fitted)))
    for again in (restore_encoder(table, None, "cpu"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(vectors_of(again, frame), vectors_of(fitted, frame))


def test_a_named_encoder_is_made_again() -> None:
    chosen = choose_encoder("log-mel", SOUNDS, "cpu")
    assert isinstance(chosen, ItemEncoder)
    table = json.loads(json.dumps(describe_encoder(chosen)))
    for again in (restore_encoder(table, None, "cpu"), pickle.loads(pickle.dumps(chosen))):
        assert isinstance(again, ItemEncoder)
        assert again.encoder is not chosen.encoder
        assert (describe_encoder(again), again.named, again.device) == (table, True, "cpu")
    assert len(pickle.dumps(chosen)) < 1000


def test_a_custom_encoder_is_pickled_whole() -> None:
    again = pickle.loads(pickle.dumps(choose_encoder(Letters(), ["a"], "cpu")))
    assert vectors_of(again, ["ab"]).tolist() == [[1, 1]]
    assert not again.named


def test_another_encoder_of_the_name_is_refused() -> None:
    table = describe_encoder(choose_encoder(Letters(), ["a"], "cpu"))
    assert isinstance(restore_encoder(table, Letters(), "cpu"), ItemEncoder)
    with pytest.raises(InvalidCheckpoint, match=r"not the one .*: got fingerprint other; allowed"):
        restore_encoder(table, Letters("other"), "cpu")


@pytest.mark.parametrize("table", [{}, {"encoder": "log-mel", "modality": "smell"}, {"columns": 3}])
def test_a_damaged_table_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(InvalidCheckpoint, match="the saved encoder is damaged: got"):
        restore_encoder(table, None, "cpu")


@pytest.mark.parametrize("text", ["", ",a text of its own"])
def test_columns_beyond_the_examples_are_named(tmp_path: Path, text: str) -> None:
    rows = "".join(
        f"2021-01-{day:02},{day % 5}{text and f'{text} {day}'},{'ab'[day % 2]}\n"
        for day in range(1, 11)
    )
    known, asked = tmp_path / "t.csv", tmp_path / "q.csv"
    column = ",note" if text else ""
    known.write_text(f"when,x{column},label\n{rows}")
    asked.write_text(f"when,x{column}\n2021-01-05,2{text}\n2022-01-05,9{text}\n2023-01-05,{text}\n")
    examples = read_labelled(known)
    assert examples.layout is not None
    encoder = fit_layout(examples.layout, examples.items, "auto", "cpu")
    items = read_unlabelled([asked], like=examples).items
    [note] = encoder.notes_on(examples.items, items)
    assert note.startswith("Most values of 'when' lie outside the range of the examples")
    assert note.endswith("--column when=skip, in Python encoder={'when': 'skip'}")
    assert not encoder.notes_on(examples.items, items.iloc[:2])
    assert not encoder.notes_on(examples.items.iloc[:0], items)
    assert not encoder.notes_on(examples.items)


def test_cut_texts_are_mentioned_in_a_note() -> None:
    letters = Letters()
    letters.max_words = 3
    encoder = ItemEncoder(encoder=letters, named=False)
    assert encoder.notes_on(["a b c", "a b c d"], ["one two  three four"]) == (
        "2 texts read up to word 3 at most",
    )
    assert encoder.notes_on(["a b c", Path("a b c d")]) == ()
    letters.max_words = None
    assert encoder.notes_on(["a b c d"]) == ()


def test_cut_texts_in_a_column_of_a_table_are_mentioned_with_its_name() -> None:
    letters = Letters()
    letters.max_words = 3
    examples = pandas.DataFrame({"size": [0.0, 2.0], "review": ["a b c d", None]})
    queries = pandas.DataFrame({"size": [9.0, 9.0], "review": ["a b", "a b c d e"]})
    cells = TableEncoder().fit(examples[["size"]])
    texts = ItemEncoder(encoder=letters, named=False)
    encoder = MixedEncoder([TablePart(cells, None), TablePart(texts, "review")])
    beyond, cut = encoder.notes_on(examples, queries)
    assert beyond.startswith("Most values of 'size' lie outside the range of the examples")
    assert cut == "'review': 2 texts read up to word 3 at most"
    assert encoder.notes_on(examples) == ("'review': 1 text read up to word 3 at most",)
    for no_examples in ((), examples.iloc[:0]):  # those of a saved classifier
        assert encoder.notes_on(no_examples, queries) == encoder.notes_on(examples)
    letters.max_words = None
    assert encoder.notes_on(examples, queries) == (beyond,)
