import json
import pickle
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas
import pytest
from numpy.typing import NDArray

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Encoder, Modality
from unitail.errors import (
    InvalidCheckpoint,
    InvalidConfig,
    InvalidSource,
    UnknownEncoder,
    Unreadable,
)
from unitail.estimator.inputs import (
    ItemInputs,
    TableInputs,
    VectorInputs,
    choose_inputs,
    inputs_from_table,
)

pytestmark = pytest.mark.usefixtures("cache")


class Letters(Encoder[str]):
    """Counts of a and b; "?" cannot be read."""

    modality = Modality.TEXT

    def __init__(self, fingerprint: str = "letters") -> None:
        super().__init__(name="Letters", width=2, fingerprint=fingerprint, batch_size=2)

    def read(self, item: object) -> str:
        text = item.read_text() if isinstance(item, Path) else str(item)
        if "?" in text:
            raise Unreadable("a question", got=text, allowed="statements")
        return text

    def embed(self, batch: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[text.count(letter) for letter in "ab"] for text in batch], np.float32)


SOUNDS = [(np.sin(np.arange(8000) * pitch).astype(np.float32), 8000) for pitch in (0.1, 0.5)]


def test_vectors_are_left_alone() -> None:
    rows = [[1.0, 2.0]]
    for encoder in (None, "auto"):
        inputs = choose_inputs(encoder, rows, "cpu")
        assert isinstance(inputs, VectorInputs)
        assert inputs.vectors(rows) is rows
    assert isinstance(inputs_from_table(inputs.to_table(), None, "cpu"), VectorInputs)


def test_strings_stay_what_they_were_in_fit(tmp_path: Path) -> None:
    name = str(tmp_path / "a.txt")
    Path(name).write_text("bb")
    files = choose_inputs(Letters(), [name], "cpu")
    texts = choose_inputs(Letters(), [name, "a text"], "cpu")
    assert files.vectors([name]).tolist() == [[0, 2]]
    assert texts.vectors([name])[0, 0] > 0  # the letters of the name
    with pytest.raises(Unreadable, match=r"item 0 \(.*gone\.txt\): cannot be read"):
        files.vectors([str(tmp_path / "gone.txt")])


def test_all_unreadable_items_are_counted_and_some_are_told() -> None:
    inputs = choose_inputs(Letters(), ["a"], "cpu")
    with pytest.raises(Unreadable) as two:
        inputs.vectors(["a", "?1", "b", "?2"])
    assert str(two.value) == (
        "2 of 4 items have no vector: got item 1: a question: got ?1; allowed: statements; item 3: "
        "a question: got ?2; allowed: statements; allowed: what the encoder Letters reads. "
        "Mend them or leave them out."
    )
    with pytest.raises(Unreadable, match=r"5 of 5 items .*item 2: .*; and 2 more; allowed"):
        inputs.vectors([f"?{place}" for place in range(5)])


def test_vectors_are_cached(cache: FeatureCache) -> None:
    choose_inputs(Letters(), ["a"], "cpu").vectors(["a", "b", "a"])
    assert [count.name for count in cache.info().encoders] == ["Letters"]
    assert cache.info().entries == 2


def test_a_cache_in_trouble_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    inputs = choose_inputs(Letters(), ["a"], "cpu")
    with pytest.warns(UserWarning, match="the feature cache in .* cannot be used"):
        assert inputs.vectors(["a"]).tolist() == [[1, 0]]


def test_the_default_encoder_goes_by_what_x_holds() -> None:
    inputs = choose_inputs("auto", SOUNDS, "cpu")
    assert isinstance(inputs, ItemInputs)
    assert (inputs.encoder.name, inputs.encoder.modality) == ("log-mel", Modality.AUDIO)
    assert inputs.vectors(SOUNDS).shape == (2, inputs.encoder.width)


def test_a_model_without_a_name_is_asked_for_with_what_x_holds(tmp_path: Path) -> None:
    with pytest.raises(UnknownEncoder, match="nowhere"):
        choose_inputs(str(tmp_path / "nowhere"), ["a text"], "cpu")
    with pytest.raises(UnknownEncoder, match="modality table"):
        choose_inputs(str(tmp_path / "nowhere"), pandas.DataFrame({"a": [1]}), "cpu")


def test_an_encoder_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"encoder is unknown: got int; allowed: None, 'auto'"):
        choose_inputs(3, ["a"], "cpu")


def test_an_encoder_does_not_take_a_table() -> None:
    with pytest.raises(InvalidSource, match="X is not a list of items: got DataFrame"):
        choose_inputs("log-mel", pandas.DataFrame({"a": [1]}), "cpu")


# Tables


def test_a_table_is_encoded_by_the_rows_of_fit() -> None:
    frame = pandas.DataFrame({"size": [0.0, 2.0], "colour": ["red", "blue"]})
    inputs = choose_inputs("auto", frame, "cpu")
    assert isinstance(inputs, TableInputs)
    alone = inputs.vectors(frame[:1])
    np.testing.assert_array_equal(alone, inputs.vectors(frame)[:1])
    again = inputs_from_table(json.loads(json.dumps(inputs.to_table())), None, "cpu")
    np.testing.assert_array_equal(again.vectors(frame), inputs.vectors(frame))
    with pytest.raises(InvalidSource, match="fitted on a table: got list; allowed: a DataFrame"):
        inputs.vectors([[1.0, "red"]])


# Once more


def test_a_named_encoder_is_made_again() -> None:
    inputs = choose_inputs("log-mel", SOUNDS, "cpu")
    table = json.loads(json.dumps(inputs.to_table()))
    for again in (inputs_from_table(table, None, "cpu"), pickle.loads(pickle.dumps(inputs))):
        assert isinstance(again, ItemInputs)
        assert again.encoder is not inputs.encoder
        assert (again.to_table(), again.named, again.device) == (table, True, "cpu")
    assert len(pickle.dumps(inputs)) < 1000


def test_an_encoder_of_ones_own_is_pickled_whole() -> None:
    inputs = pickle.loads(pickle.dumps(choose_inputs(Letters(), ["a"], "cpu")))
    assert inputs.vectors(["ab"]).tolist() == [[1, 1]]
    assert not inputs.named


def test_another_encoder_of_the_name_is_refused() -> None:
    table = choose_inputs(Letters(), ["a"], "cpu").to_table()
    assert isinstance(inputs_from_table(table, Letters(), "cpu"), ItemInputs)
    with pytest.raises(InvalidCheckpoint, match=r"not the one .*: got fingerprint other; allowed"):
        inputs_from_table(table, Letters("other"), "cpu")


@pytest.mark.parametrize("table", [{}, {"encoder": "log-mel", "modality": "smell"}, {"columns": 3}])
def test_a_damaged_table_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(InvalidCheckpoint, match="what was saved of the encoder is damaged: got"):
        inputs_from_table(table, None, "cpu")


def test_no_warning_without_trouble() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        choose_inputs(Letters(), ["a"], "cpu").vectors(["a"])
    assert caught == []
