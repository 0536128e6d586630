from pathlib import Path

import numpy as np
import pandas as pd

import unitail
from helpers.builders import small_model
from unitail import TailClassifier
from unitail.estimator.saving.card import MAX_CLASSES

X = np.random.default_rng(0).normal(size=(6, 3))


def _card(classifier: TailClassifier, folder: Path, **options: bool) -> str:
    return (classifier.save(folder, **options) / "README.md").read_text(encoding="utf-8")


def test_a_card_says_what_the_classifier_is(tmp_path: Path) -> None:
    text = _card(TailClassifier().fit(X, ["a|b", "ö", "c"] * 2), tmp_path / "saved")
    assert "Learned from 6 labelled examples of 3 classes." in text
    assert "- Takes: vectors, as they are" in text
    assert "unitail predict" not in text, "no command asks about vectors"
    assert "- Model: one that comes with unitail (sha256 " in text
    assert "- Prediction sets: calibrated" in text
    assert f"- Made with unitail {unitail.__version__}, torch " in text
    assert r"| a\|b | 2 |" in text
    assert "| ö | 2 |" in text


def test_custom_tables_and_models(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["height", "leaf_width", "petals"])
    classifier = TailClassifier(small_model(), encoder="auto").fit(frame, [0, 1] * 3)
    text = _card(classifier, tmp_path / "saved", calibrate=False)
    assert r"rows of a table with the columns height, leaf\_width, petals" in text
    assert "- Model: in this folder" in text
    assert "unitail predict --model THIS_FOLDER" in text
    assert "- Prediction sets: computed on first use" in text


def test_very_many_classes_are_counted(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(MAX_CLASSES + 7, 2))
    text = _card(TailClassifier().fit(rows, np.arange(MAX_CLASSES + 7)), tmp_path / "saved")
    assert text.endswith("| and 7 more | |\n")
