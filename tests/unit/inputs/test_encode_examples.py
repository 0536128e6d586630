import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from helpers.letters import Letters
from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Modality
from unitail.encoders.tables import TableEncoder
from unitail.errors import (
    ColumnWarning,
    InvalidConfig,
    InvalidInput,
    UnknownEncoder,
    Unreadable,
)
from unitail.estimator.classifier import TailClassifier
from unitail.inputs.encode import choose_encoder, vectors_of
from unitail.inputs.input_encoder import ItemEncoder

pytestmark = pytest.mark.usefixtures("cache")
SOUNDS = [(np.sin(np.arange(8000) * pitch).astype(np.float32), 8000) for pitch in (0.1, 0.5)]


def _table(*sizes: float) -> pd.DataFrame:
    return pd.DataFrame({"size": sizes})


@pytest.mark.parametrize("encoder", [None, "auto"])
def test_vectors_are_left_alone(encoder: str | None) -> None:
    rows = [[1.0, 2.0]]
    by = choose_encoder(encoder, rows, "cpu")
    assert by is None
    assert vectors_of(by, rows) is rows


def test_strings_stay_what_they_were_in_fit(tmp_path: Path) -> None:
    name = str(tmp_path / "a.txt")
    Path(name).write_text("bb")
    files = choose_encoder(Letters(), [name], "cpu")
    texts = choose_encoder(Letters(), [name, "a text"], "cpu")
    assert vectors_of(files, [name]).tolist() == [[0, 2]]
    assert vectors_of(texts, [name])[0, 0] > 0  # the letters of the name
    with pytest.raises(Unreadable, match=r"item 0 \(.*gone\.txt\): cannot be read"):
        vectors_of(files, [str(tmp_path / "gone.txt")])


def test_all_unreadable_items_are_counted_and_some_are_reported() -> None:
    by = choose_encoder(Letters(), ["a"], "cpu")
    with pytest.raises(Unreadable) as two:
        vectors_of(by, ["a", "?1", "b", "?2"])
    assert str(two.value) == (
        "2 of 4 items could not be encoded: got item 1: a question: got ?1; allowed: statements; "
        "item 3: a question: got ?2; allowed: statements; allowed: what the encoder Letters reads. "
        "Fix them or leave them out."
    )
    with pytest.raises(Unreadable, match=r"5 of 5 items .*item 2: .* and 2 more; allowed"):
        vectors_of(by, [f"?{place}" for place in range(5)])


def test_vectors_are_cached(cache: FeatureCache) -> None:
    vectors_of(choose_encoder(Letters(), ["a"], "cpu"), ["a", "b", "a"])
    assert [count.name for count in cache.info().encoders] == ["Letters"]
    assert cache.info().entries == 2


def test_a_broken_cache_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    by = choose_encoder(Letters(), ["a"], "cpu")
    with pytest.warns(UserWarning, match="the feature cache in .* cannot be used"):
        assert vectors_of(by, ["a", "b"]).tolist() == [[1, 0], [0, 1]]


def test_no_warning_without_a_problem() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vectors_of(choose_encoder(Letters(), ["a"], "cpu"), ["a"])
    assert caught == []


def test_the_default_encoder_goes_by_what_x_holds() -> None:
    by = choose_encoder("auto", SOUNDS, "cpu")
    assert isinstance(by, ItemEncoder)
    assert (by.name, by.encoder.modality) == ("log-mel", Modality.AUDIO)
    assert vectors_of(by, SOUNDS).shape == (2, by.encoder.width)


def test_a_model_without_a_name_is_asked_for_with_what_x_holds(tmp_path: Path) -> None:
    with pytest.raises(UnknownEncoder, match="nowhere"):
        choose_encoder(str(tmp_path / "nowhere"), ["a text"], "cpu")


def test_an_encoder_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"encoder is unknown: got int; allowed: None, 'auto'"):
        choose_encoder(3, ["a"], "cpu")


@pytest.mark.parametrize("name", ["log-mel", "models/of/my/own"])
def test_a_table_has_an_encoder_of_its_own(name: str) -> None:
    assert isinstance(choose_encoder("columns", _table(1, 2), "cpu"), TableEncoder)
    with pytest.raises(UnknownEncoder, match=f"tables have one encoder: got '{name}'"):
        choose_encoder(name, _table(1, 2), "cpu")
    with pytest.raises(InvalidInput, match="X is not a list of items: got DataFrame"):
        choose_encoder(Letters(), _table(1, 2), "cpu")


def test_a_table_is_encoded_by_the_rows_of_fit() -> None:
    frame = pd.DataFrame({"size": [0.0, 2.0], "colour": ["red", "blue"]})
    by = choose_encoder("auto", frame, "cpu")
    np.testing.assert_array_equal(vectors_of(by, frame[:1]), vectors_of(by, frame)[:1])
    with pytest.raises(InvalidInput, match=r"not a table: got list; allowed: a pandas\.DataFrame"):
        vectors_of(by, [[1.0, "red"]])


# Columns of frames


def test_columns_that_are_not_used_are_a_warning_and_an_attribute() -> None:
    frame = pd.DataFrame({"size": [1, 2, 8, 9], "year": [7, 7, 7, 7]})
    with pytest.warns(ColumnWarning, match="Column 'year' is not used: only one value"):
        classifier = TailClassifier(encoder="auto").fit(frame, [0, 0, 1, 1])
    assert classifier.dropped_columns_ == {"year": "only one value"}
    assert TailClassifier().fit([[1.0], [2.0]], [0, 1]).dropped_columns_ == {}


TEXTS = ["a small kitten sleeps", "stocks fell again today", "the old dog barks"]


def test_texts_can_be_taken_as_categories_with_a_warning() -> None:
    repeated = pd.DataFrame({"text": 4 * TEXTS, "size": range(12)})
    with pytest.warns(ColumnWarning, match="Column 'text' holds texts, .* compared as categories"):
        choose_encoder({"text": "table"}, repeated, "cpu")
    with pytest.warns(ColumnWarning, match="Column 'text' holds texts, .* compared as categories"):
        choose_encoder("columns", repeated, "cpu")
    different = pd.DataFrame({"text": [f"{i} words of text" for i in range(12)], "size": range(12)})
    with pytest.warns(ColumnWarning, match="'text' is not used: texts, nearly all different"):
        choose_encoder("columns", different, "cpu")


def test_names_of_one_or_two_words_are_categories() -> None:
    frame = pd.DataFrame({"place": 4 * ["New York", "Paris", "Rio de Janeiro"]})
    by = choose_encoder("auto", frame, "cpu")  # a warning would be an error
    assert isinstance(by, TableEncoder)
    assert len(np.unique(vectors_of(by, frame), axis=0)) == 3
