"""Texts and sounds on the studio's page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from helpers.browsers import CHROMIUM, open_page, served_here
from helpers.letters import Letters
from helpers.sounds import write_sounds
from helpers.studios import wait_until
from unitail.encoders.encoder import Encoder, Modality

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


class Loudness(Encoder[NDArray[np.float32]]):
    """How loud a sound is, and how often it changes sign."""

    modality = Modality.AUDIO

    def __init__(self) -> None:
        super().__init__(name="loudness", width=2, fingerprint="loudness", batch_size=4)

    def read(self, item: object) -> NDArray[np.float32]:
        return np.asarray(soundfile.read(str(item))[0], np.float32)

    def embed(self, batch: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        rows = [[np.abs(each).mean(), (each[1:] * each[:-1] < 0).mean()] for each in batch]
        return np.array(rows, np.float32)


def name_and_label(page: Any, keys: str) -> None:  # noqa: ANN401
    """Name two classes, and label the first items."""
    page.click("#guide input")
    page.keyboard.type("one\ntwo\n")
    page.wait_for_selector('#classes [title^="two:"]')
    page.keyboard.press("Escape")
    page.keyboard.press("Home")
    for rank, key in enumerate(keys):
        page.keyboard.press(key)
        page.wait_for_selector(f'.card[id="item-{rank}"][data-state="given"]')


def test_texts_of_a_table(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    table = tmp_path / "letters.csv"
    texts = ["a" * n + "b" * (9 - n) + " <i>no markup</i>" for n in (9, 0, 8, 1, 7, 2)]
    table.write_text("\n".join(["text", *texts]) + "\n")
    with served_here(table, encoder=Letters()) as url:
        page = open_page(browser, url)
        name_and_label(page, "12")
        row = page.wait_for_selector('#classes [title^="one: 1 labelled, 2 answered"]')
        page.keyboard.press("1")
        page.wait_for_selector('#classes [title^="one: 2 labelled, 1 answered"]')
        assert row.evaluate("row => row.isConnected")  # a click on it would not have been lost
        page.keyboard.press("Control+z")
        page.wait_for_selector('#classes [title^="one: 1 labelled, 2 answered"]')
        text = page.locator("#item-2 .text")
        assert text.inner_text() == texts[2]
        assert text.evaluate("box => box.scrollHeight <= box.clientHeight")  # two lines are whole
        assert page.locator("#item-2").bounding_box()["height"] < 130  # and cards of short ones low
        page.fill("#search", "aaabb")
        page.wait_for_selector('.card[aria-setsize="1"]')
        page.locator(".card").dblclick()
        page.wait_for_selector("#why .snippet >> text=aaaaaaaaa <i>no markup</i>")
        assert page.locator(".stage .text").inner_text() == texts[4]


def test_how_the_rows_of_a_table_were_read(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    table = tmp_path / "rows.csv"
    table.write_text("size;price\n1;1,50\n2;2,50\n3;3,5\n")
    with served_here(table, notes=["'label <b>2</b>' is new"]) as url:
        page = open_page(browser, url)
        page.get_by_role("button", name="2 notes").click()
        page.wait_for_selector("#dialog >> text='label <b>2</b>' is new.")
        page.wait_for_selector("#dialog >> text=in the numbers of 'price' are decimal points.")
        page.keyboard.press("Escape")
        page.set_viewport_size({"width": 390, "height": 700})
        assert page.locator("#notes").is_hidden()
        page.locator("#open-side").click()
        page.get_by_role("button", name="How the items were read").click()
        page.wait_for_selector("#dialog[open] >> text=decimal points.")
        page.context.close()
    table.write_text("size;price\n1;1\n2;2\n3;3\n")
    with served_here(table) as url:
        page = open_page(browser, url)
        assert page.locator("#notes, #side-noted").evaluate_all("all => all.every((x) => x.hidden)")
        page.context.close()


def test_long_and_foreign_texts_and_classes_that_are_digits(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    table = tmp_path / "texts.csv"
    texts = ["a" * 500, "א" * 3 + " b.", *("ab " * n for n in range(1, 40))]
    table.write_text("\n".join(["text", *texts]) + "\n")
    with served_here(table, encoder=Letters()) as url:
        page = open_page(browser, url)
        page.keyboard.press("n")
        page.keyboard.type("0\n2\nfew\n1\n")
        page.wait_for_selector('#classes [title^="1: 0 labelled"]')
        titles = page.locator("#classes .row[title]").evaluate_all(
            "rows => rows.map((row) => row.title)"
        )
        assert [each.rpartition(" ")[2] for each in titles] == ["0", "2", "3", "1"]  # their keys
        page.keyboard.press("Escape")
        page.keyboard.press("Home")
        page.keyboard.press("0")
        page.wait_for_selector('[title^="0: 1 labelled"]')
        page.keyboard.press("u")
        page.wait_for_selector('[title^="0: 0 labelled"]')
        long, foreign = page.locator("#item-0 .text"), page.locator("#item-1 .text")
        assert long.evaluate("box => box.scrollWidth <= box.clientWidth")
        assert foreign.evaluate("box => getComputedStyle(box).direction") == "rtl"
        page.emulate_media(forced_colors="active")  # where backgrounds say nothing, lines do
        current = page.locator("[data-key=view-all]")
        assert current.evaluate("row => getComputedStyle(row).outlineStyle") == "solid"
        page.emulate_media(forced_colors="none")
        _open_twice_by_keys(page)
        page.keyboard.press("End")
        page.wait_for_selector("#item-40.focused")
        page.set_viewport_size({"width": 390, "height": 500})
        last = page.locator("#item-40")
        wait_until(lambda: last.bounding_box()["width"] > 330)
        assert 0 < last.bounding_box()["y"] < 500  # what was on the screen is on it now


def _open_twice_by_keys(page: Any) -> None:  # noqa: ANN401
    """Look at an item at large: keys reach it, the focus stays where it was, Escape closes it."""
    page.keyboard.press("Home")
    for _ in range(2):
        page.keyboard.press("Space")
        page.wait_for_selector("#detail[open]")
        assert page.evaluate("document.activeElement.id") == "detail"
        page.keyboard.press("Escape")
        page.wait_for_selector("#detail:not([open])", state="attached")
        assert page.evaluate("document.activeElement.id") == "grid"
    page.keyboard.press("Space")
    focused = "document.activeElement.textContent"
    page.locator("#detail button", has_text="Next").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#detail[aria-label^='א']")
    assert page.evaluate(focused) == "Next →"
    page.locator("#detail .choice", has_text="few").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#detail[aria-label='ab']")
    assert page.evaluate(focused) == "few3"
    page.keyboard.press("Escape")


def test_a_folder_of_sounds(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    folder = tmp_path / "sounds"
    for kind in ("hum", "hiss"):
        write_sounds(tmp_path / kind, 3)
        for file in (tmp_path / kind / kind).iterdir():
            folder.mkdir(exist_ok=True)
            file.rename(folder / f"{file.stem}-{kind}.wav")
    with served_here(folder, encoder=Loudness()) as url:
        page = open_page(browser, url)
        name_and_label(page, "12")
        page.wait_for_selector('#classes [title^="one: 1 labelled, 2 answered"]')
        page.keyboard.press("Space")
        page.wait_for_selector(".stage .play >> text=0.2 s")
        page.wait_for_selector(".stage .play:not(.playing)")
        assert page.locator("#why .snippet .play").count() == 2
        page.keyboard.press("1")  # and on to the next one
        page.wait_for_selector("#detail h2 >> text=1-hum.wav")


def test_sounds_are_played_by_buttons_and_keys_that_lose_no_key(
    browser: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    folder = write_sounds(tmp_path / "sounds", 1, seconds=12)
    with served_here(folder, encoder=Loudness()) as url:
        page = open_page(browser, url)
        name_and_label(page, "")
        buttons = page.locator(".card .play")
        buttons.nth(1).click()
        page.wait_for_selector("#item-1 .play.playing[title^='Pause ']")
        page.wait_for_selector("#item-1 .length:text-is('0:12')")
        page.keyboard.press("p")
        page.wait_for_selector("#item-1 .play:not(.playing)")
        page.keyboard.press("p")
        page.wait_for_selector("#item-1 .play.playing")
        buttons.nth(0).click()
        page.wait_for_selector("#item-0 .play.playing")
        assert page.locator(".playing").count() == 1  # the other one is paused
        buttons.nth(1).click()
        page.keyboard.press("2")  # the keys are for what was clicked
        page.wait_for_selector("#item-1[data-state=given] >> text=two")
        buttons.nth(2).drag_to(page.locator("#classes .row[title^='one:']"))
        page.wait_for_selector("#item-2[data-state=given] >> text=one")
        buttons.nth(0).focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#item-0 .play.playing")
        page.keyboard.press("1")
        page.wait_for_selector("#item-0[data-state=given] >> text=one")
        assert page.evaluate("document.activeElement.id") == "grid"
