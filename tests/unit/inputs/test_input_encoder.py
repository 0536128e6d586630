import json
import pickle

import numpy as np
import pandas
import pytest

from helpers.letters import Letters
from unitail.errors import InvalidCheckpoint
from unitail.inputs.encode import choose_encoder, vectors_of
from unitail.inputs.input_encoder import ItemEncoder, describe_encoder, restore_encoder

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
