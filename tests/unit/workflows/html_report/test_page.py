import base64
import hashlib
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from unitail.encoders.encoder import Modality
from unitail.errors import CannotWrite
from unitail.inputs.encode import Among, Unread
from unitail.inputs.items import Items
from unitail.workflows.answers import Answer, Answers
from unitail.workflows.html_report import page as page_module
from unitail.workflows.html_report import previews as html_items
from unitail.workflows.html_report.page import write_html_report

EVIL = '<script>alert("1")</script>'
LABEL = 'a&b" onclick="x'


class Page(HTMLParser):
    """What a browser would see: elements with attributes, and the text outside of code."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._code = False
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._code = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._code = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._code else data.replace("\xa0", " ")

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def _answers(
    names: list[str], modality: Modality, probabilities: list[float] | None = None
) -> Answers:
    sure = probabilities or [0.8] * len(names)
    return Answers(
        answers=tuple(
            Answer(
                place=place,
                name=name,
                label=LABEL,
                probability=p,
                top=((LABEL, p), (EVIL, 1 - p)),
                members=(LABEL, EVIL),
                novelty=0.97 if place == 0 else 0.2,
            )
            for place, (name, p) in enumerate(zip(names, sure, strict=True))
        ),
        unreadable=(Unread(Among.FILES, f"{EVIL}.png", f"is empty {EVIL}"),),
        modality=modality,
        encoder="some-encoder",
        examples={LABEL: 2, EVIL: 1},
        coverage=0.9,
        joint=False,
        num_cached=0,
    )


def _page(items: list[object], modality: Modality, path: Path) -> Page:
    names = tuple(str(item) for item in items)
    write_html_report(_answers(list(names), modality), _items(items, names, modality), path)
    return Page(path)


def _items(items: object, names: tuple[str, ...], modality: Modality) -> Items:
    return Items(items=items, names=names, modality=modality)


def _image(path: Path, size: tuple[int, int] = (40, 20), orientation: int = 1) -> Path:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", size, "red").save(path, exif=exif)
    return path


def _inline(page: Page) -> Image.Image:
    source = page.all("img")[0]["src"] or ""
    assert source.startswith("data:image/jpeg;base64,")
    return Image.open(io.BytesIO(base64.b64decode(source.split(",")[1])))


def test_images_are_small_upright_and_inside(tmp_path: Path) -> None:
    path = _image(tmp_path / "a b.jpg", (2000, 1000), orientation=6)
    page = _page([path], Modality.IMAGE, tmp_path / "report.html")
    image = _inline(page)
    assert image.size == (180, 360)
    assert image.getpixel((90, 180))[0] > 250
    assert page.all("a")[0]["href"] == "a%20b.jpg"


def test_names_and_texts_are_never_code(tmp_path: Path) -> None:
    path = _image(tmp_path / "<script>.png")
    for page in (
        _page([path], Modality.IMAGE, tmp_path / "i.html"),
        _page([f"{EVIL} {{{{script}}}}"], Modality.TEXT, tmp_path / "t.html"),
    ):
        assert len(page.all("script")) == 1
        assert page.all("script")[0] == {}
        assert EVIL in page.text
        assert page.text.count("Made by unitail") == 1  # nothing was swallowed as code
    assert "{{script}}" in page.text


def test_titles_labels_and_names_of_files_with_schemes_are_escaped(tmp_path: Path) -> None:
    path = _image(tmp_path / "javascript:alert(1).png")
    result = replace(_answers([path.name], Modality.IMAGE), encoder=EVIL)
    items = _items([path], (path.name,), Modality.IMAGE)
    write_html_report(result, items, tmp_path / "r.html", title=EVIL)
    page = Page(tmp_path / "r.html")
    assert page.all("a")[0]["href"] == "javascript%3Aalert%281%29.png"
    assert page.all("article")[0]["data-label"] == LABEL
    assert EVIL in page.text
    assert LABEL in [each.get("value") for each in page.all("option")]
    assert len(page.all("script")) == 1


def test_the_policy_allows_this_code_and_no_network(tmp_path: Path) -> None:
    page = _page(["text"], Modality.TEXT, tmp_path / "r.html")
    policy = next(meta["content"] or "" for meta in page.all("meta") if "http-equiv" in meta)
    assert policy.startswith("default-src 'none'; img-src data:; media-src data:; ")
    for tag in ("style", "script"):
        (code,) = re.findall(f"<{tag}>(.*?)</{tag}>", page.source, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"(src|href)=.?(https?:)?//", page.source)


def test_the_least_certain_come_first_and_novelty_is_marked(tmp_path: Path) -> None:
    result = _answers(["x", "y", "z"], Modality.TEXT, [0.9, 0.999, 0.3])
    write_html_report(
        result, _items(["x", "y", "z"], ("x", "y", "z"), Modality.TEXT), tmp_path / "r.html"
    )
    page = Page(tmp_path / "r.html")
    assert [card["data-place"] for card in page.all("article")] == ["2", "0", "1"]
    assert "> 99 %" in page.text
    assert page.text.count("looks new") == 1


def test_the_head_says_what_was_done(tmp_path: Path) -> None:
    page = _page(["x"], Modality.TEXT, tmp_path / "r.html")
    assert "1 text answered · 3 examples of 2 classes · encoder some-encoder" in page.text
    assert "Could not be read (1)" in page.text
    assert "in about 90 % of cases" in page.text


def test_a_set_of_one_class_does_not_count_as_clear(tmp_path: Path) -> None:
    items = ["x", "y", "z", "w"]
    result = _answers(items, Modality.TEXT, [0.51, 0.79, 0.8, 0.99])
    answers = tuple(replace(answer, members=(LABEL,), novelty=0) for answer in result.answers)
    shown = _items(items, tuple(items), Modality.TEXT)
    write_html_report(replace(result, answers=answers), shown, tmp_path / "r.html")
    page = Page(tmp_path / "r.html")
    assert "clear" not in page.text
    assert "2likely: 80 % or more2doubtful: below 80 %0novel" in page.text


def test_sets_of_all_or_many_classes_are_short(tmp_path: Path) -> None:
    result = _answers(["x", "y"], Modality.TEXT)
    many = tuple(f"class {number}" for number in range(12))
    answers = tuple(
        replace(answer, members=members)
        for answer, members in zip(result.answers, (many, many[:10]), strict=True)
    )
    result = replace(result, answers=answers, examples=dict.fromkeys(many, 1), notes=("<Note>",))
    write_html_report(result, _items(["x", "y"], ("x", "y"), Modality.TEXT), tmp_path / "r.html")
    page = Page(tmp_path / "r.html")
    assert "Could be: any of the 12 classes" in page.text
    assert "class 6, class 7 and 2 more" in page.text
    assert "<Note>." in page.text


def test_sounds_are_inside_while_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / name for name in ("1.wav", "2.wav", "3.aiff", "4.mp3")]
    for path, size in zip(paths, (60, 50, 1, 500), strict=True):
        path.write_bytes(b"s" * size)
    monkeypatch.setattr(page_module, "MAX_MEDIA_BYTES", 100)
    monkeypatch.setattr(page_module, "THREADS", 1)
    monkeypatch.setattr(html_items, "MAX_SOUND_BYTES", 100)
    page = _page(list(paths), Modality.AUDIO, tmp_path / "r.html")
    (sound,) = page.all("audio")
    assert sound["src"] == "data:audio/wav;base64," + base64.b64encode(b"s" * 60).decode()
    assert page.text.count("the page is too large already") == 1
    assert page.text.count("No preview") == 2
    assert [link["href"] for link in page.all("a")] == [path.name for path in paths]


def test_rows_are_cells(tmp_path: Path) -> None:
    frame = pd.DataFrame({"size": [1.5, float("nan")], "<b>": ["x<y", None]})
    wide = {f"c{n}": [0, 0] for n in range(html_items.MAX_CELLS)}
    frame = frame.assign(**wide)
    result = _answers(["row 1", "row 2"], Modality.TABLE)
    write_html_report(
        result, _items(frame, ("row 1", "row 2"), Modality.TABLE), tmp_path / "r.html"
    )
    page = Page(tmp_path / "r.html")
    for words in ("size1.5<b>x<y", "size-<b>-", "and 2 more", "row 2"):
        assert words in page.text
    assert len(page.all("b")) == 4 + 2 * 2  # the numbers of the head and of the bars


def test_long_texts_are_cut_and_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"\xef\xbb\xbf" + b"word " * 2000 + b"\xff")
    page = _page([path], Modality.TEXT, tmp_path / "r.html")
    assert 230 < page.text.count("word") < 250
    assert "\ufeff" not in page.text


def test_items_that_vanished_are_answered_all_the_same(tmp_path: Path) -> None:
    for modality in (Modality.IMAGE, Modality.AUDIO, Modality.TEXT):
        page = _page([tmp_path / "gone.wav"], modality, tmp_path / "r.html")
        assert len(page.all("article")) == 1


def test_many_answers_are_limited_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "MAX_CARDS", 2)
    done: list[tuple[int, int]] = []
    items = ["x", "y", "z"]
    result = _answers(items, Modality.TEXT, [0.9, 0.5, 0.6])
    shown = _items(items, tuple(items), Modality.TEXT)
    write_html_report(result, shown, tmp_path / "r.html", on_progress=lambda *now: done.append(now))
    page = Page(tmp_path / "r.html")
    assert [card["data-place"] for card in page.all("article")] == ["1", "2"]
    assert "The 2 least certain of 3 answers are shown" in page.text
    assert done == [(1, 2), (2, 2)]


def test_a_page_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match=r"none/r\.html could not be written"):
        _page(["x"], Modality.TEXT, tmp_path / "none" / "r.html")
