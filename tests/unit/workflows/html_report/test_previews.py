from pathlib import Path

import pandas as pd
import pytest

from unitail.encoders.encoder import Modality
from unitail.inputs.items import LabelledItems
from unitail.workflows.answers import Answer, Because
from unitail.workflows.html_report import previews as module
from unitail.workflows.html_report.previews import ExamplesPanel, Room


def _texts(*pairs: tuple[str, str]) -> LabelledItems:
    texts = tuple(text for text, _ in pairs)
    labels = tuple(label for _, label in pairs)
    return LabelledItems(items=texts, names=texts, labels=labels, modality=Modality.TEXT)


def _answer(*nearest: int, because: tuple[Because, ...] = ()) -> Answer:
    return Answer(
        place=0,
        name="q",
        label="a",
        probability=1.0,
        top=(("a", 1.0),),
        members=("a",),
        novelty=0.0,
        nearest=nearest,
        because=because,
        because_columns=(("<x>", 0.5),) if because else (),
    )


def test_examples_are_shown_by_class_and_escaped(tmp_path: Path) -> None:
    texts = _texts(("x<y", "b"), ("z", "<a>"), ("w", "b"))
    html = ExamplesPanel(texts, []).as_html(Room(0), tmp_path)
    assert "Your examples (3)" in html
    assert html.index("&lt;a&gt; <small>1 example</small>") < html.index("b <small>2 examples<")
    assert "x&lt;y" in html
    assert html.count("<li ") == 3


def test_every_class_has_some_if_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_EXAMPLES", 4)
    pairs = [(f"text {n}", "ab"[n >= 7]) for n in range(10)]
    html = ExamplesPanel(_texts(*pairs), []).as_html(Room(0), tmp_path)
    assert html.count("<li ") == 4
    assert "7 examples, 2 of them shown" in html
    assert "text 7" in html


def test_a_saved_classifier_has_none_to_show(tmp_path: Path) -> None:
    for items, kind in (((), Modality.TEXT), (pd.DataFrame({"x": []}), Modality.TABLE)):
        saved = LabelledItems(items=items, names=("1",), labels=("a",), modality=kind)
        assert ExamplesPanel(saved, []).as_html(Room(0), tmp_path) == ""


def test_what_is_near_to_an_answer_is_shown_and_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_EXAMPLES", 2)
    monkeypatch.setattr(module, "MAX_NEAR", 1)
    pairs = [(f"text <{n}>", "ab"[n >= 5]) for n in range(10)]
    examples = ExamplesPanel(_texts(*pairs), [_answer(7, 3), _answer(7)])
    shown = examples.as_html(Room(0), tmp_path)
    assert shown.count("<li ") == 3
    assert '<li id="example-7"><p class="text">text &lt;7&gt;</p></li>' in shown
    near = examples.near_as_html(_answer(7, 3))
    assert '<a href="#example-7"><b>b</b> text &lt;7&gt;</a>' in near
    assert "example-3" not in near  # there was no room to show it
    assert examples.near_as_html(_answer(3)) == ""


def test_what_speaks_for_an_answer_comes_before_what_is_near(tmp_path: Path) -> None:
    texts = _texts(("u", "a"), ("v", "b"))
    answer = _answer(0, because=(Because(place=1, name="v", label="b", share=0.25),))
    html = ExamplesPanel(texts, [answer]).near_as_html(answer)
    assert "Supporting examples, with their shares" in html
    assert '<a href="#example-1"><b>b</b> v</a> 25 %' in html
    assert "example-0" not in html
    assert "Supporting columns: &lt;x&gt; 50 %" in html
