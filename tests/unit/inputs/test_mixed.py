"""Rows of tables that hold items beside numbers: every part by its own encoder."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from helpers.colours import MeanColour
from helpers.letters import Letters
from unitail import TailClassifier
from unitail.encoders import registry
from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.table_view import STEPS
from unitail.encoders.tables import TableEncoder
from unitail.errors import ColumnWarning, InvalidConfig, InvalidInput, UnknownEncoder, Unreadable
from unitail.inputs import input_encoder, mixed
from unitail.inputs.columns import lay_out
from unitail.inputs.encode import encode, fit_layout
from unitail.inputs.input_encoder import MixedEncoder, describe_encoder, restore_encoder

pytestmark = [
    pytest.mark.usefixtures("cache"),
    pytest.mark.filterwarnings("ignore::unitail.errors.ColumnWarning"),
]
READERS = {Modality.IMAGE: MeanColour, Modality.TEXT: Letters}


@pytest.fixture(autouse=True)
def quick_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(name: str, modality: Modality, **_: object) -> Encoder[Any]:
        return READERS[modality]()

    for module in (mixed, input_encoder):
        monkeypatch.setattr(module, "make_encoder", make)


def _table(folder: Path, rows: int = 8, seed: int = 0) -> tuple[pd.DataFrame, list[str]]:
    """Draw rows of two classes that no column tells apart alone, but all three together do."""
    generator = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    labels = ["x" if row % 2 else "y" for row in range(rows)]
    cells: dict[str, list[Any]] = {"photo": [], "notes": [], "size": []}
    for row, label in enumerate(labels):
        sign = 1 if label == "x" else -1
        red, letters, size = sign + 0.3 * generator.normal(size=3)
        path = folder / f"{seed}-{row}.png"
        other = int(generator.integers(80, 100))
        Image.new("RGB", (2, 2), (int(128 + 60 * red), other, 90)).save(path)
        cells["photo"].append(str(path))
        cells["notes"].append("so much of " + "a" * round(20 + 8 * letters) + "b" * (other % 5))
        cells["size"].append(1000 * size)
    return pd.DataFrame(cells), labels


def _fitted(frame: pd.DataFrame) -> MixedEncoder:
    by = fit_layout(lay_out(frame, {}), frame, "auto", "cpu")
    assert isinstance(by, MixedEncoder)
    return by


def test_every_part_has_an_equal_share_in_the_distance_between_rows(tmp_path: Path) -> None:
    """Whatever the units: pixels from 0 to 1, counts of letters, thousands of grams."""
    frame, _ = _table(tmp_path / "t")
    by = _fitted(frame)
    [vectors] = encode(by, frame)
    assert by.widths == (3, 2, 1)
    blocks = np.split(vectors.features.astype(np.float64), np.cumsum(by.widths)[:-1], axis=1)
    shares = [block.var(axis=0, ddof=1).sum() for block in blocks]
    np.testing.assert_allclose(shares, np.full(3, shares[2]), rtol=1e-5)
    cells = TableEncoder().fit(frame[["size"]]).transform(frame)
    np.testing.assert_array_equal(blocks[2], cells)  # as for a plain table
    [items] = encode(_fitted(frame[["photo", "notes"]]), frame)
    shares = [block.var(axis=0, ddof=1).sum() for block in np.split(items.features, [3], axis=1)]
    np.testing.assert_allclose(shares, [1, 1], rtol=1e-5)


def test_what_earlier_versions_saved_is_read_as_they_did(tmp_path: Path) -> None:
    """They knew no size: all parts together had mean square 1."""
    frame, _ = _table(tmp_path / "t")
    by = _fitted(frame)
    encode(by, frame)
    older = {key: what for key, what in (describe_encoder(by) or {}).items() if key != "size"}
    [vectors] = encode(restore_encoder(older, None, "cpu"), frame)  # type: ignore[arg-type]
    blocks = np.split(vectors.features.astype(np.float64), np.cumsum(by.widths)[:-1], axis=1)
    shares = [block.var(axis=0, ddof=1).sum() for block in blocks]
    np.testing.assert_allclose(shares, np.full(3, 1 / 3), rtol=1e-5)


def test_what_is_asked_does_not_move_the_scale(tmp_path: Path) -> None:
    frame, _ = _table(tmp_path / "t")
    far = frame.assign(size=frame["size"] * 3, notes=frame["notes"] + "aaaaaaaaaaaaaaaa")
    [alone] = encode(_fitted(frame), frame)
    beside, _ = encode(_fitted(frame), frame, far)
    np.testing.assert_array_equal(alone.features, beside.features)


def test_the_numbers_say_which_part_says_what(tmp_path: Path) -> None:
    frame, _ = _table(tmp_path / "t")
    by = _fitted(frame)
    assert by.name == "mean-colour + Letters + columns"
    assert by.notes == (
        "Read as separate parts: 'photo' (image, mean-colour), 'notes' (text, Letters),"
        " 1 column of numbers and categories",
    )


def test_empty_cells_say_nothing_and_the_rest_answers(tmp_path: Path) -> None:
    frame, labels = _table(tmp_path / "t")
    asked, truth = _table(tmp_path / "t", seed=1)
    asked.loc[[0, 1], "photo"] = None
    asked.loc[[2, 3], "notes"] = " "
    classifier = TailClassifier(encoder="auto", device="cpu").fit(frame, labels)
    assert classifier.predict(asked).tolist() == truth
    _, vectors = encode(_fitted(frame), frame, asked)
    middle = vectors.features[0, :3]
    assert np.all(vectors.features[:2, :3] == middle), "the mean of the examples stands for it"
    assert not np.any(vectors.features[2:, 0] == middle[0])


def test_a_row_without_anything_has_no_vector(tmp_path: Path) -> None:
    frame, _ = _table(tmp_path / "t")
    texts = frame[["notes"]]
    by = _fitted(texts)
    asked = pd.DataFrame({"notes": ["aab of course", None]})
    _, vectors = encode(by, texts, asked, on_unreadable="skip")
    assert [(each.place, each.reason) for each in vectors.unreadable] == [
        (1, "nothing in any of its columns")
    ]
    with pytest.raises(Unreadable, match="item 9: nothing in any of its columns"):
        encode(_fitted(texts), texts, asked)


def test_a_file_that_cannot_be_read_is_reported_with_its_column(tmp_path: Path) -> None:
    frame, _ = _table(tmp_path / "t")
    asked = frame.assign(photo=[*frame["photo"][:-1], str(tmp_path / "none.png")])
    _, vectors = encode(_fitted(frame), frame, asked, on_unreadable="skip")
    assert vectors.kept.tolist() == list(range(7))
    assert [each.place for each in vectors.unreadable] == [7]
    assert vectors.unreadable[0].reason.startswith("photo: cannot be read: got No such file")


def test_one_part_stays_as_its_encoder_has_it() -> None:
    texts = pd.DataFrame({"notes": ["aab of old", "bba of new"]})
    [vectors] = encode(_fitted(texts), texts)
    np.testing.assert_array_equal(vectors.features, [[2, 1], [1, 2]])


def test_parts_without_any_spread_say_nothing(tmp_path: Path) -> None:
    frame, labels = _table(tmp_path / "t")
    same = frame.assign(photo=frame["photo"].iloc[0])
    [vectors] = encode(_fitted(same), same)
    assert np.all(vectors.features[:, :3] == 0)
    classifier = TailClassifier(encoder="auto", device="cpu").fit(same, labels)
    assert classifier.predict(same).tolist() == labels


def test_each_part_answers_by_itself_and_vectors_are_answered_alike(tmp_path: Path) -> None:
    """As `unitail.learners.parts` has it; a classifier for the vectors keeps to the parts."""
    frame, labels = _table(tmp_path / "t")
    classifier = TailClassifier(encoder="auto", device="cpu").fit(frame, labels)
    rows = classifier.kept_examples().vectors
    said = classifier.predict_proba(frame)
    scale = ["none", "none", "columns"]
    bare = TailClassifier(parts=[3, 2, 1], scale=scale, device="cpu").fit(rows, labels)
    np.testing.assert_allclose(bare.predict_proba(rows), said, rtol=1e-6)
    for_vectors = classifier.with_encoder(None)
    assert for_vectors.parts == (3, 2, 1)
    assert for_vectors.scale == scale
    assert for_vectors.with_encoder(classifier.kept_examples().encoder).scale == "auto"
    for_vectors.add_pool(rows)
    pooled = bare.add_pool(rows).predict_proba(rows)
    np.testing.assert_allclose(for_vectors.predict_proba(rows), pooled, rtol=1e-6)
    one = TailClassifier(device="cpu", scale="none").fit(rows, labels)
    assert np.abs(one.predict_proba(rows) - said).max() > 0.001


def test_numbers_beside_texts_are_seen_as_those_of_a_plain_table() -> None:
    """With steps and weights, alone and left out: both classes lie on each side of the other."""
    rng = np.random.default_rng(0)
    size = rng.uniform(-1, 1, size=60)
    frame = pd.DataFrame({"size": size, "age": rng.uniform(20, 70, size=60)})
    labels = np.where(np.abs(size) > 0.5, "out", "in")
    mixed_frame = frame.assign(
        notes=["so much of " + "a" * int(n) for n in rng.integers(9, size=60)]
    )
    plain = TailClassifier(encoder="auto", device="cpu").fit(frame, labels)
    classifier = TailClassifier(encoder="auto", device="cpu").fit(mixed_frame, labels)
    _, cells = classifier.fitted_.hypothesis.each
    shown = torch.from_numpy(classifier.fitted_.scaled.features)
    assert shown.shape[1] == 2 + 2 * (1 + STEPS)
    np.testing.assert_allclose(
        cells(shown[None, :, 2:])[0].log_softmax(-1).numpy(),
        plain.predict_log_proba(frame),
        atol=1e-9,
    )
    assert (classifier.predict(mixed_frame) == labels).mean() > 0.9
    bare = TailClassifier(encoder="auto", device="cpu", scale="none").fit(mixed_frame, labels)
    kept = [each.fitted_.held_out_scores.mean() for each in (classifier, bare)]
    assert kept[0] < kept[1] - 0.02
    assert len(classifier.novelty(mixed_frame)) == 60


def test_all_parts_together_answer_better_than_any_alone(tmp_path: Path) -> None:
    frame, labels = _table(tmp_path / "t", rows=12)
    asked, truth = _table(tmp_path / "t", rows=12, seed=1)
    classifier = TailClassifier(encoder="auto", device="cpu").fit(frame, labels)
    assert classifier.predict(asked).tolist() == truth
    # Mislead one part: the other two outvote it.
    asked["size"] = -asked["size"]
    assert (classifier.predict(asked) == truth).mean() > 0.9


@pytest.mark.filterwarnings("error::unitail.errors.ColumnWarning")
def test_a_guess_is_reported_and_a_choice_of_the_user_is_not(tmp_path: Path) -> None:
    frame, labels = _table(tmp_path / "t")
    with pytest.warns(ColumnWarning, match=r"separate parts: 'photo' \(image.*encoder=\{column: "):
        TailClassifier(encoder="auto", device="cpu").fit(frame, labels)
    chosen = {"photo": "image", "notes": "minilm"}
    TailClassifier(encoder=chosen, device="cpu").fit(frame, labels)
    with pytest.warns(ColumnWarning, match="Column 'notes' is not used: as requested"):
        left = TailClassifier(encoder={"notes": "skip"}, device="cpu").fit(frame, labels)
    assert left.dropped_columns_ == {"notes": "as requested"}
    assert left.n_features_in_ == 4


def test_saved_loaded_and_pickled_it_answers_alike(tmp_path: Path) -> None:
    frame, labels = _table(tmp_path / "t")
    asked, _ = _table(tmp_path / "t", seed=1)
    classifier = TailClassifier(encoder={"photo": "image"}, device="cpu").fit(frame, labels)
    classifier.save(tmp_path / "saved")
    said = classifier.predict_proba(asked)
    loaded = TailClassifier.load(tmp_path / "saved")
    np.testing.assert_array_equal(loaded.predict_proba(asked), said)
    assert loaded.encoder == {"photo": "image"}
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict_proba(asked), said)
    grown = loaded.add(asked, ["x"] * len(asked)).kept_examples()
    np.testing.assert_array_equal(grown.vectors[:8], classifier.kept_examples().vectors)


def test_what_is_saved_is_plain_json(tmp_path: Path) -> None:
    frame, _ = _table(tmp_path / "t")
    by = _fitted(frame)
    encode(by, frame)
    restored = restore_encoder(json.loads(json.dumps(describe_encoder(by))), None, "cpu")
    assert isinstance(restored, MixedEncoder)
    assert restored.contents == by.contents
    np.testing.assert_array_equal(
        encode(restored, frame)[0].features, encode(by, frame)[0].features
    )


def test_a_named_encoder_reads_the_columns_that_it_takes(tmp_path: Path) -> None:
    frame, _ = _table(tmp_path / "t")
    layout = lay_out(frame, {})
    by = fit_layout(layout, frame, "distilbert", "cpu")
    assert isinstance(by, MixedEncoder)
    with pytest.raises(UnknownEncoder, match=r"which column the encoder 'me/x' reads.*--column ph"):
        fit_layout(layout, frame, "me/x", "cpu")
    with pytest.raises(UnknownEncoder, match="which column the encoder 'log-mel' reads"):
        fit_layout(layout, frame, "log-mel", "cpu")


def test_kinds_of_columns_that_there_are_not_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixed, "make_encoder", registry.make_encoder)
    monkeypatch.setattr(registry, "MODELS", {})
    frame, _ = _table(tmp_path / "t")
    layout = lay_out(frame, {"notes": "banana"})
    message = "'notes' cannot be read as 'banana': unknown .*: image, text, audio, table, skip; or"
    with pytest.raises(UnknownEncoder, match=message):
        fit_layout(layout, frame, "auto", "cpu")
    message = r"'columns' reads numbers and categories: got 'photo' \(image\), .*--modality table"
    with pytest.raises(UnknownEncoder, match=message):
        fit_layout(lay_out(frame, {}), frame, "columns", "cpu")
    message = r"no column 'q': got 'photo', .*--column NAME=skip, in Python encoder={NAME: 'skip'}"
    with pytest.raises(InvalidInput, match=message):
        lay_out(frame, {"q": "skip"})


def test_mistakes_are_reported(tmp_path: Path) -> None:
    frame, labels = _table(tmp_path / "t")
    classifier = TailClassifier(encoder="auto", device="cpu").fit(frame, labels)
    message = "lacks columns that the examples have: got no 'photo'; allowed: all of .*'photo'"
    with pytest.raises(InvalidInput, match=rf"{message}.*--column photo=skip, in Python"):
        classifier.predict(frame.drop(columns="photo"))
    with pytest.raises(
        InvalidInput, match="the input is not a table, unlike the examples: got list"
    ):
        classifier.predict(["a text", "another"])
    mapping = TailClassifier(encoder={"a": "text"}, device="cpu")
    with pytest.raises(InvalidConfig, match="got X of type list; allowed: a DataFrame"):
        mapping.fit(["one", "two"], ["x", "y"])
