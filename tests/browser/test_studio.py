"""The studio in a real browser: what a user does, with mouse, keyboard and a narrow window."""

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from helpers.browsers import CHROMIUM, open_page, served_here
from helpers.forks import fork, line_of
from helpers.studios import write_pictures

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
TESTS = Path(__file__).parents[1]
SERVE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import uvicorn
from helpers.studios import open_studio
from unitail.studio.app import make_app
from unitail.web.access import Access
from unitail.cli.studio import _bound
listener = _bound("127.0.0.1", 0)
app = make_app(open_studio(Path(sys.argv[2])), Access.at("127.0.0.1"))
print(f"http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)).run([listener])
"""
"""Serves a folder as `unitail studio` does, by an encoder that needs no weights."""


@contextmanager
def served(source: Path, output: Path) -> Iterator[tuple[ForkServerProcess, str]]:
    """Serve a studio in a process of its own."""
    process = fork(SERVE, TESTS, source, output=output)
    try:
        yield process, line_of(output, process, r"http://127\.0\.0\.1:\d+/")[0]
    finally:
        process.kill()
        process.join()


def card(page: Any, name: str) -> Any:  # noqa: ANN401
    return page.locator(f'.card[data-name="{name}"]')


def has_label(name: str, label: str) -> str:
    """Select the card of an item that has a label."""
    return f'.card[data-name="{name}"][data-state="given"]:has-text("{label}")'


def label(page: Any, name: str, key: str) -> None:  # noqa: ANN401
    card(page, name).click()
    page.keyboard.press(key)
    page.wait_for_selector(f'.card[data-name="{name}"][data-state="given"]')


def count(page: Any, name: str) -> tuple[int, int]:  # noqa: ANN401
    """Return how many items of a class are labelled, and how many answered so."""
    title = page.locator(f'#classes .row[title^="{name}:"]').get_attribute("title")
    match = re.search(r": (\d+) labelled, (\d+) answered", title)
    assert match is not None
    return int(match[1]), int(match[2])


def wait_for_count(page: Any, name: str, given: int, answered: int) -> None:  # noqa: ANN401
    page.wait_for_selector(f'[title^="{name}: {given} labelled, {answered} answered"]')


def test_the_whole_loop_on_200_pictures(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    folder = tmp_path / "pictures"
    colours = write_pictures(folder, 200)
    with served(folder, tmp_path / "output") as (process, url):
        page = open_page(browser, url)
        _name_classes_and_label(page, colours)
        _correct_and_undo(page, colours)
        _label_many_at_once(page, colours)
        _work_in_several_tabs(browser, url, page)
        _look_around(page)
        _export(page, tmp_path, colours)
        # Killed, and opened again: everything is there, undo too.
        before = {name: count(page, name) for name in ("red", "green", "blue")}
        process.kill()
        process.join()
        page.locator("#lost", has_text="Not connected").wait_for()
    with served_here(folder) as url:
        again = open_page(browser, url)
        for name, (given, answered) in before.items():
            wait_for_count(again, name, given, answered)
        assert sum(map(sum, before.values())) == 200, "every picture is in a class"
        again.context.add_cookies(page.context.cookies())  # the same browser, on another port
        again.reload()
        again.wait_for_selector(".card")
        again.locator("#undo").click()
        again.wait_for_selector(".toast >> text=Undone: 1 item: green")
        given, answered = before["green"]
        wait_for_count(again, "green", given - 1, answered + 1)
        assert sum(map(sum, (count(again, name) for name in before))) == 200


def _name_classes_and_label(page: Any, colours: list[str]) -> None:  # noqa: ANN401
    assert page.locator("#guide h3").inner_text() == "Name two classes or more"
    page.click("#guide input")
    page.keyboard.type("red\ngreen\nblue\n")  # without a look at where they are written
    for name in ("red", "green", "blue"):
        page.locator("#classes .row", has_text=name).wait_for()
    # Only what is on the screen exists, however many items there are.
    assert page.locator(".card").count() < 80
    for place in range(6):
        label(page, f"{place:04}.png", str(1 + place % 3))
    wait_for_count(page, "red", 2, colours.count("red") - 2)
    wait_for_count(page, "blue", 2, colours.count("blue") - 2)


def _correct_and_undo(page: Any, colours: list[str]) -> None:  # noqa: ANN401
    label(page, "0006.png", "2")
    page.wait_for_selector('[title^="green: 3 labelled"]')  # whatever it makes of the others
    label(page, "0006.png", "1")
    wait_for_count(page, "red", 3, colours.count("red") - 3)
    page.keyboard.press("Control+z")
    page.wait_for_selector(has_label("0006.png", "green"))
    page.keyboard.press("Control+z")
    wait_for_count(page, "red", 2, colours.count("red") - 2)


def _label_many_at_once(page: Any, colours: list[str]) -> None:  # noqa: ANN401
    """Select the sure ones of a class, confirm, and drag one onto a class."""
    page.locator("#classes .row", has_text="blue").click()
    page.wait_for_selector("[data-key=class-3][aria-current]")
    assert page.locator("#select-sure").is_hidden()  # six labels are too few to be sure
    page.locator("[data-key=view-all]").click()
    for place in range(15, 19):
        label(page, f"{place:04}.png", str(1 + place % 3))
    page.locator("#classes .row", has_text="blue").click()
    page.locator("#select-sure").click()
    number = int(page.locator("#bar .count").inner_text().split()[0])
    assert number > 20
    page.locator("#bar .primary").click()
    wait_for_count(page, "blue", 3 + number, colours.count("blue") - 3 - number)
    page.locator("[data-key=view-all]").click()
    card(page, "0007.png").drag_to(page.locator("#classes .row", has_text="green"))
    page.wait_for_selector(has_label("0007.png", "green"))


def _work_in_several_tabs(browser: Any, url: str, page: Any) -> None:  # noqa: ANN401
    """Another tab sees it; one that has missed the news meets a conflict, which it is shown."""
    other = open_page(browser, url)
    other.locator("[data-key=view-all]").click()
    label(other, "0009.png", "1")
    page.wait_for_selector(has_label("0009.png", "red"))
    other.context.close()
    deaf = open_page(browser, url, deaf=True)
    deaf.locator("[data-key=view-all]").click()
    label(page, "0010.png", "2")
    card(deaf, "0010.png").click()
    deaf.keyboard.press("3")
    deaf.wait_for_selector("#dialog[open] >> text=theirs: green, yours: blue")
    assert count(page, "green")[0] == 5
    deaf.locator("#dialog button", has_text="Keep theirs").click()
    deaf.wait_for_selector(has_label("0010.png", "green"))
    deaf.context.close()


def _look_around(page: Any) -> None:  # noqa: ANN401
    """Ask why, and go through the views."""
    card(page, "0012.png").dblclick()
    page.wait_for_selector("#why figure")
    assert page.locator("#detail h2").inner_text() == "0012.png"
    page.keyboard.press("Escape")
    for view in ("next", "doubtful", "novel", "labelled"):
        page.locator(f"[data-key=view-{view}]").click()
        page.wait_for_selector(f"[data-key=view-{view}][aria-current]")
        page.wait_for_selector(".card")
    page.fill("#search", "0199")
    page.wait_for_selector('.card[aria-setsize="1"]')


def _export(page: Any, tmp_path: Path, colours: list[str]) -> None:  # noqa: ANN401
    page.locator("#export").click()
    with page.expect_download() as download:
        page.locator("a.option", has_text="Table").click()
    download.value.save_as(tmp_path / "answers.csv")
    rows = list(csv.DictReader((tmp_path / "answers.csv").read_text().splitlines()))
    assert [row["answer"] for row in rows] == colours
    page.locator("button", has_text="Link").click()
    page.wait_for_selector(".toast >> text=sorted into")
    page.locator("#export").click()
    page.locator("#dialog button", has_text="Copy").click()  # nothing is overwritten, and told
    page.wait_for_selector(".toast >> text=/0 files sorted .*; 200 files were there already/")
    assert len(list((tmp_path / "pictures-sorted").rglob("*.png"))) == 200


def test_rows_of_a_table_with_the_keyboard_alone_in_a_narrow_dark_window(
    browser: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    table = tmp_path / "points.csv"
    rows = [f"{10 * (n % 2) + n / 100},{n % 7}" for n in range(40)]
    table.write_text("\n".join(["size,shape", *rows]) + "\n")
    with served_here(table) as url:
        page = open_page(browser, url, 390, 780, color_scheme="dark")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert page.evaluate("document.activeElement.id") == "grid"
        keys = page.keyboard
        for name in ("small", "large"):
            keys.press("n")
            keys.type(name)
            keys.press("Enter")
            page.wait_for_selector(f'#classes [title^="{name}:"]', state="attached")
            keys.press("Escape")
        keys.press("Home")
        keys.press("1")
        page.wait_for_selector(has_label("row 1", "small"))
        keys.press("2")  # the focus has gone on by itself
        page.wait_for_selector(has_label("row 2", "large"))
        page.wait_for_selector('#classes [title^="small: 1 labelled, 19"]', state="attached")
        active = page.locator("#grid").get_attribute("aria-activedescendant")
        assert active == "item-2"
        keys.press("Enter")  # confirm
        page.wait_for_selector(has_label("row 3", "small"))
        keys.press("Shift+ArrowDown")
        keys.press("0")
        page.wait_for_selector('.card[data-name="row 5"][data-state="aside"]')
        keys.press("Space")
        page.wait_for_selector("#detail[open] .cells dt")
        keys.press("Escape")
        keys.press("u")
        page.wait_for_selector(".toast >> text=Undone")
        for close in (lambda: keys.press("Escape"), lambda: page.mouse.click(380, 760)):
            page.click("#open-side")
            page.wait_for_selector("#open-side[aria-expanded=true]")
            close()
            page.wait_for_selector("#open-side[aria-expanded=false]")
        page.locator("#grid").focus()
        keys.press("?")
        page.wait_for_selector("#dialog[open] >> text=Keyboard shortcuts")
        assert page.locator("#live").get_attribute("aria-live") == "polite"
