from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from helpers.letters import Letters
from helpers.wavy_table import wavy_table
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput
from unitail.estimator import fitted
from unitail.estimator.classifier import TailClassifier
from unitail.inputs import encode as encoding
from unitail.inputs.items import LabelledItems
from unitail.inputs.read import read_labelled, read_unlabelled
from unitail.learners.pretrained import SHIPPED_DRAWS
from unitail.workflows.fit import ClassifierOptions, fit_files, remembered_examples
from unitail.workflows.predict import predict_files

TEXTS = LabelledItems(
    items=("aaa", "aab", "bbb", "bba", "???"),
    names=("1", "2", "3", "4", "5"),
    labels=("A", "A", "B", "B", "B"),
    modality=Modality.TEXT,
    content_column="text",
)


def test_what_can_be_read_is_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "make_encoder", lambda *_, **__: Letters())
    progress: list[tuple[int, int]] = []
    fitted = fit_files(
        TEXTS, ClassifierOptions(device="cpu"), on_progress=lambda *each: progress.append(each)
    )
    assert fitted.class_counts == {"A": 2, "B": 2}
    assert [item.name for item in fitted.unreadable] == ["5"]
    assert progress[-1] == (5, 5)
    assert list(fitted.classifier.predict(["aaaa", "bbbb"])) == ["A", "B"]
    kept = remembered_examples(fitted.classifier)
    assert (kept.modality, kept.content_column, kept.labels) == (
        Modality.TEXT,
        "text",
        ("A", "A", "B", "B"),
    )
    assert len(kept) == 4


def test_a_class_that_cannot_be_read_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "make_encoder", lambda *_, **__: Letters())
    lost = LabelledItems(
        items=("a", "?"), names=("1", "2"), labels=("A", "B"), modality=Modality.TEXT
    )
    with pytest.raises(InvalidInput, match="no example of a class can be read: got 'B'"):
        fit_files(lost, ClassifierOptions(device="cpu"))


def test_the_columns_of_a_table_are_remembered_with_their_types(tmp_path: Path) -> None:
    days = pd.Series(["2026-01-01", "2026-02-01", "2026-01-03", "2026-02-04"])
    frame = pd.DataFrame({"size": [1.0, 2, 3, 4], "day": days, "kind": ["x", "x", "y", "y"]})
    classifier = TailClassifier(encoder="auto").fit(frame, [0, 0, 1, 1])
    kept = remembered_examples(classifier)
    assert {name: str(kind) for name, kind in kept.items.dtypes.items()} == {
        "size": "float64",
        "day": "object",
        "kind": "object",
    }
    assert kept.labels == ("0", "0", "1", "1")
    asked = tmp_path / "asked.csv"
    asked.write_text("size,day,kind\n5,3.1.2026,x\n")
    assert read_unlabelled([asked], like=kept).items["day"].tolist() == ["2026-01-03"]


def test_how_cells_were_written_is_remembered(tmp_path: Path) -> None:
    """Else a saved classifier would read what stands alone in another way than its examples."""
    known, more, asked = (tmp_path / f"{name}.csv" for name in ("known", "more", "asked"))
    rows = ["13/02/2021;1,5;5 kg;1;a", "02/03/2021;1,25;6 kg;2;b", "14/02/2021;1,125;7 kg;3;a"]
    known.write_text("\n".join(["day;price;mass;count;label", *rows]))
    more.write_text("day;price;mass;count;label\n05/03/2021;2;8 kg;4,5;b\n")
    asked.write_text("day;price;mass;count\n04/03/2021;1,234;9 lb;5\n")
    examples = read_labelled(known, also=[more])
    fitted = fit_files(examples, ClassifierOptions(device="cpu")).classifier
    loaded = TailClassifier.load(fitted.save(tmp_path / "saved"))
    for like in (examples, remembered_examples(fitted), remembered_examples(loaded)):
        items = read_unlabelled([asked], like=like)
        assert items.items.iloc[0, :2].tolist() == ["2021-03-04", 1.234]
        assert items.ignored == ("1 cell of 'mass' without a number ('9 lb')",)


def test_names_of_shipped_models_are_no_saved_classifiers(tmp_path: Path) -> None:
    assert all(ClassifierOptions(model=name).load_saved() is None for name in SHIPPED_DRAWS)
    folder = TailClassifier().fit(np.eye(4), [0, 0, 1, 1]).save(tmp_path / "saved")
    loaded = ClassifierOptions(model=str(folder), device="cpu").load_saved()
    assert loaded is not None
    assert loaded.device == "cpu"


def test_a_table_is_answered_as_the_classifier_with_an_encoder_answers(tmp_path: Path) -> None:
    """By `unitail predict`, by `unitail fit` and what it saved: all with steps and weights."""
    known, asked = wavy_table(), wavy_table(seed=1).drop(columns="label")
    known.to_csv(tmp_path / "known.csv", index=False)
    asked.to_csv(tmp_path / "asked.csv", index=False)
    own = TailClassifier(encoder="auto", random_state=0, device="cpu")
    own.fit(known.drop(columns="label"), known["label"])
    expected = own.predict_proba(asked)
    plain = TailClassifier(encoder="auto", random_state=0, device="cpu", scale="none")
    plain.fit(known.drop(columns="label"), known["label"])
    assert np.abs(plain.predict_proba(asked) - expected).max() > 0.05

    examples = read_labelled(tmp_path / "known.csv")
    queries = read_unlabelled([tmp_path / "asked.csv"], like=examples)
    answers = predict_files(examples, queries, ClassifierOptions(device="cpu")).answers
    assert [each.label for each in answers] == own.predict(asked).tolist()
    np.testing.assert_allclose([each.probability for each in answers], expected.max(axis=1))
    fitted = fit_files(examples, ClassifierOptions(device="cpu")).classifier
    assert (fitted.encoder, fitted.scale) == ("auto", "auto")
    np.testing.assert_array_equal(fitted.predict_proba(asked), expected)
    loaded = TailClassifier.load(fitted.save(tmp_path / "saved"))
    np.testing.assert_array_equal(loaded.predict_proba(asked), expected)
    saved = predict_files(remembered_examples(loaded), queries, saved=loaded).answers
    np.testing.assert_allclose([each.probability for each in saved], expected.max(axis=1))
    for again in (fitted, loaded):  # what a fit on the same rows comes to once more
        again.fit(known.drop(columns="label"), known["label"])
        np.testing.assert_array_equal(again.fitted_.scaled.features, own.fitted_.scaled.features)


def test_that_a_table_is_large_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python it is a warning, which the commands would show as that of a bug."""
    monkeypatch.setattr(fitted, "MANY_ROWS", 30)
    wavy_table(30).to_csv(tmp_path / "known.csv", index=False)
    examples = read_labelled(tmp_path / "known.csv")
    note = "A table of 30 labelled rows: from about 30 on, gradient boosting"
    assert fit_files(examples, ClassifierOptions(device="cpu")).notes[-1].startswith(note)
    assert (
        predict_files(examples, examples, ClassifierOptions(device="cpu"))
        .notes[-1]
        .startswith(note)
    )
    monkeypatch.setattr(encoding, "make_encoder", lambda *_, **__: Letters())
    monkeypatch.setattr(fitted, "MANY_ROWS", 4)
    assert not fit_files(TEXTS, ClassifierOptions(device="cpu")).notes, "four texts are no table"
