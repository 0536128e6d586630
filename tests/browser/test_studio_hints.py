"""What the page tells: the next step, a contradicted label, an export at work, trouble."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from helpers.browsers import CHROMIUM, open_page, served_here
from helpers.studios import wait_until, write_pictures

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
CLASSES = ("red", "green", "blue", *(f"kind {letter}" for letter in "abcdefg"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hints") / "pictures"
    write_pictures(folder, 60)
    return folder


@pytest.fixture
def page(browser: Any, folder: Path) -> Iterator[Any]:  # noqa: ANN401
    with served_here(folder) as url:
        page = open_page(browser, url)
        yield page
        page.context.close()


def given(name: str, label: str) -> str:
    return f'.card[data-name="{name}"][data-state="given"]:has-text("{label}")'


def focused(page: Any) -> str:  # noqa: ANN401
    return str(page.locator(".card.focused").get_attribute("data-name"))


def colour_of(toast: Any) -> tuple[int, int, int]:  # noqa: ANN401
    """Return the colour of a message at its left side, as it is seen."""
    with Image.open(BytesIO(toast.screenshot())) as seen:
        pixel = seen.convert("RGB").getpixel((5, seen.height // 2))
    assert isinstance(pixel, tuple)
    return pixel


def test_from_the_first_name_to_the_last_hint(page: Any, folder: Path) -> None:  # noqa: ANN401
    page.click("#guide input")
    page.keyboard.type("\n".join(CLASSES) + "\n")
    page.locator("#classes .row", has_text="kind g").wait_for()
    page.wait_for_selector("#guide >> text=the first letters of any class")
    page.keyboard.press("Escape")
    _label_by_name(page)
    _drag_and_go_on(page)
    _close_the_hint(page)
    _show_what_contradicts(page)
    _export_says_what_it_does(page)
    _trouble_is_told(page, folder)


def _label_by_name(page: Any) -> None:  # noqa: ANN401
    """Classes beyond the ninth have no key: their names do; words within a name count, too."""
    page.keyboard.press("Home")
    for place, (words, name) in enumerate((("RE", "red"), ("d g", "kind g"))):
        page.keyboard.press("l")
        page.wait_for_selector("#dialog[open] >> text=Label as")
        page.keyboard.type(words)
        page.keyboard.press("Enter")
        page.wait_for_selector(given(f"{place:04}.png", name))
    page.keyboard.press("l")
    page.keyboard.type("nobody")
    page.wait_for_selector("#dialog[open] >> text=No class has this name")
    page.wait_for_selector("#dialog[open] >> text=Create “nobody”")
    page.keyboard.press("Enter")  # creates the class, and labels the item
    page.wait_for_selector(given("0002.png", "nobody"))
    for undone in ("1 item: nobody", "New class nobody"):
        page.keyboard.press("u")
        page.wait_for_selector(f".toast >> text=Undone: {undone}")
    page.wait_for_selector('.card[data-name="0002.png"]:not([data-state="given"])')
    assert page.locator('.card[data-state="given"]').count() == 2


def _drag_and_go_on(page: Any) -> None:  # noqa: ANN401
    """Go on after a drag as after a key, and from what has a label."""
    row = page.locator("#classes .row", has_text="blue")
    page.locator('.card[data-name="0002.png"]').drag_to(row)
    page.wait_for_selector(given("0002.png", "blue"))
    assert focused(page) == "0003.png"
    page.locator('.card[data-name="0001.png"]').click()
    page.keyboard.press("Enter")
    page.wait_for_selector('.card.focused[data-name="0003.png"]')


def _close_the_hint(page: Any) -> None:  # noqa: ANN401
    """Read the last hint: it stays until it is closed, then for good."""
    assert page.locator("#guide h3").inner_text() == "Review the answers"
    page.locator("#guide .link", has_text="Most doubtful").click()
    page.wait_for_selector("#view-about >> text=/^57 items, \\d+ of them doubtful\\. /")
    page.locator("#guide [aria-label='Close this hint']").click()
    page.wait_for_selector("#guide", state="hidden")
    page.keyboard.press("1")
    page.wait_for_selector("[title^='red: 2 labelled']")
    assert page.locator("#guide").is_hidden()


def _show_what_contradicts(page: Any) -> None:  # noqa: ANN401
    """See what the others speak for at a label that looks wrong, until it is that."""
    page.locator("[data-key=view-labelled]").click()
    page.evaluate(  # again and again: the studio's own estimate may come in between
        "import('/static/state.js').then(({ state, takeEstimate }) => setInterval(() =>"
        " takeEstimate({ now: { mean: 0.9, low: 0.8, high: 1 }, sentence: '', curve: [],"
        " suspicious: [[1, state.classes[1].id, 0.934]] }), 50))"
    )
    page.wait_for_selector(given("0001.png", "kind g") + " >> text=green?")
    page.locator('.card[data-name="0001.png"]').dblclick()
    page.wait_for_selector("#detail >> text=Your other labels suggest green (93 %).")
    page.keyboard.press("2")
    page.keyboard.press("Escape")
    page.wait_for_selector(given("0001.png", "green") + ":not(:has(.other))")


def _export_says_what_it_does(page: Any) -> None:  # noqa: ANN401
    page.locator("#export").click()
    option = page.locator("a.option", has_text="Table")
    page.route("**/api/export/csv", lambda route: route.fulfill(status=503, json={"error": "No"}))
    option.click()
    page.wait_for_selector(".toast.bad >> text=No")
    page.unroute("**/api/export/csv")
    held: list[Any] = []
    page.route("**/api/export/csv", lambda route: held.append(route))  # noqa: PLW0108 - as playwright takes it
    option.click()
    page.wait_for_selector("a.option[aria-busy] >> text=writing …")
    with page.expect_download() as download:
        held.pop().continue_()
    page.unroute("**/api/export/csv")
    assert download.value.suggested_filename == "pictures-answers.csv"
    told = page.locator(".toast", has_text="Downloaded pictures-answers.csv")
    told.wait_for()
    wait_until(lambda: colour_of(told) == (35, 36, 46), 20)  # no veil lies over it
    page.keyboard.press("Escape")


def _trouble_is_told(page: Any, folder: Path) -> None:  # noqa: ANN401
    """Take the database away and back: the page says so, and keeps what is shown."""
    files = sorted((folder / ".unitail").glob("studio.db*"))
    away = folder.parent / "away"
    away.mkdir()
    before = page.locator("[data-key=view-labelled] small").inner_text()
    for file in files:
        file.rename(away / file.name)
    page.wait_for_selector(".toast.bad >> text=the label database is gone")
    page.keyboard.press("2")
    page.wait_for_selector(".toast.bad >> nth=1")
    assert page.locator("[data-key=view-labelled] small").inner_text() == before
    for file in files:
        (away / file.name).rename(file)
    page.wait_for_selector(".toast:not(.bad) >> text=is available again")
    page.keyboard.press("2")
    page.wait_for_selector("[title^='green: 2 labelled']")
