"""Filters and corrections on the page, as a browser runs them."""

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from unitail.encoders.encoder import Modality
from unitail.inputs.items import Items, ReadOptions, Record
from unitail.inputs.read import read_labelled
from unitail.workflows.answers import Answer, Answers
from unitail.workflows.html_report import page as page_module
from unitail.workflows.html_report.page import write_html_report

NAMES = ['=1 "odd", ü.txt', "</script><b>.txt", "three.txt", "four.txt"]
DRIVER = """
addEventListener("securitypolicyviolation", (event) => log.push(event.violatedDirective));
const log = [], all = (query) => [...document.querySelectorAll(query)];
const shown = () => all("article").filter((card) => !card.hidden).map((card) => card.dataset.place);
const tell = (id, text) => {
  const element = document.createElement("pre");
  [element.id, element.textContent] = [id, text];
  document.body.append(element);
};
for (const tile of all("#tiles button")) { tile.click(); log.push([tile.dataset.state, shown()]); }
all("#tiles button")[2].click();
log.push(["all", shown()], document.getElementById("download").disabled);
all(".correct input").forEach((field, place) => {
  field.value = ["new, \\"class\\"", "", " b ", ""][place];
  field.dispatchEvent(new Event("input", { bubbles: true }));
});
log.push(document.getElementById("download").textContent);
const make = URL.createObjectURL;
URL.createObjectURL = (blob) => {
  blob.text().then((text) => tell("csv", text));
  return make(blob);
};
document.getElementById("download").click();
tell("log", JSON.stringify(log));
"""


def _write(folder: Path) -> Path:
    """Write a page about four files: two likely, one doubtful, one novel."""
    numbers = [(0.5, 0.1), (0.9, 0.99), (0.95, 0.1), (0.99, 0.1)]
    answers = tuple(
        Answer(
            place=place,
            name=name,
            label="a",
            probability=p,
            top=(("a", p),),
            members=("a",),
            novelty=novelty,
        )
        for place, (name, (p, novelty)) in enumerate(zip(NAMES, numbers, strict=True))
    )
    result = Answers(
        answers=answers,
        unreadable=(),
        modality=Modality.TEXT,
        encoder="some",
        examples={"a": 1, "b": 1},
        coverage=0.9,
        joint=False,
    )
    records = tuple(
        Record(cells={"file": f"new/{name}"}, item=place) for place, name in enumerate(NAMES)
    )
    items = Items(items=tuple(NAMES), names=tuple(NAMES), modality=Modality.TEXT, records=records)
    path = folder / "r.html"
    write_html_report(result, items, path, label_column="kind")
    return path


def test_fields_carry_what_the_input_says(tmp_path: Path) -> None:
    text = _write(tmp_path).read_text()
    records = [json.loads(html.unescape(each)) for each in re.findall('data-record="(.*?)"', text)]
    assert records == [{"file": f"new/{name}"} for name in NAMES]
    assert text.count("<script>") == 1
    assert '<option value="b">' in text
    assert 'data-column="kind"' in text


def test_rows_too_large_for_the_page_have_no_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "MAX_RECORD", len('{"file": "new/three.txt"}'))
    assert _write(tmp_path).read_text().count("data-record=") == 2


def _shown(page: Path) -> str:
    """Return the page's DOM in a browser, which may not end by itself after printing it."""
    command = "chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=3000 --dump-dom"
    own = f"--user-data-dir={page.parent / 'profile'}"
    with subprocess.Popen(
        [*command.split(), own, page.as_uri()],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as browser:
        try:
            return browser.communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            browser.kill()
            return browser.communicate()[0]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no browser here")
def test_a_browser_filters_and_writes_corrections_that_are_taken_back(tmp_path: Path) -> None:
    text = _write(tmp_path).read_text()
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    driven = script + DRIVER
    for old, new in ((_hash(script), _hash(driven)), (script, driven)):
        text = text.replace(old, new)
    (tmp_path / "driven.html").write_text(text)
    dom = _shown(tmp_path / "driven.html")
    written = {
        name: html.unescape(re.findall(f'<pre id="{name}">(.*?)</pre>', dom, re.DOTALL)[-1])
        for name in ("log", "csv")
    }
    assert json.loads(written["log"]) == [
        ["likely", ["2", "3"]],
        ["doubtful", ["0"]],
        ["novel", ["1"]],
        ["all", ["0", "1", "2", "3"]],
        True,
        "Download corrections (2)",
    ]
    (tmp_path / "new").mkdir()
    for name in (NAMES[0], NAMES[2]):
        (tmp_path / "new" / name).write_text("text")
    (tmp_path / "corrections.csv").write_text(written["csv"])
    examples = read_labelled(tmp_path / "corrections.csv", ReadOptions(label_column="kind"))
    assert [path.name for path in examples.items] == [NAMES[0], NAMES[2]]
    assert examples.labels == ('new, "class"', "b")


def _hash(code: str) -> str:
    return base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
