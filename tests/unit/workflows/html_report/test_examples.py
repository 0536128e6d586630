from pathlib import Path

import pandas as pd
import pytest

from unitail.encoders.encoder import Modality
from unitail.inputs.items import LabelledItems
from unitail.workflows.html_report import examples as module
from unitail.workflows.html_report.examples import examples_as_html
from unitail.workflows.html_report.items import Room


def _texts(*pairs: tuple[str, str]) -> LabelledItems:
    texts = tuple(text for text, _ in pairs)
    labels = tuple(label for _, label in pairs)
    return LabelledItems(items=texts, names=texts, labels=labels, modality=Modality.TEXT)


def test_examples_are_shown_by_class_and_escaped(tmp_path: Path) -> None:
    html = examples_as_html(_texts(("x<y", "b"), ("z", "<a>"), ("w", "b")), Room(0), tmp_path)
    assert "Your examples (3)" in html
    assert html.index("&lt;a&gt; <small>1 example</small>") < html.index("b <small>2 examples<")
    assert "x&lt;y" in html
    assert html.count("<li>") == 3


def test_every_class_has_some_if_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_EXAMPLES", 4)
    pairs = [(f"text {n}", "ab"[n >= 7]) for n in range(10)]
    html = examples_as_html(_texts(*pairs), Room(0), tmp_path)
    assert html.count("<li>") == 4
    assert "7 examples, the first 2 of them" in html
    assert "text 7" in html


def test_a_saved_classifier_has_none_to_show(tmp_path: Path) -> None:
    for items, kind in (((), Modality.TEXT), (pd.DataFrame({"x": []}), Modality.TABLE)):
        saved = LabelledItems(items=items, names=("1",), labels=("a",), modality=kind)
        assert examples_as_html(saved, Room(0), tmp_path) == ""
