"""What others change meanwhile, on the studio's page: classes, files, rows of tables, labels."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from helpers.browsers import CHROMIUM, open_page, served_here
from helpers.letters import Letters
from helpers.studios import wait_until, write_pictures

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
SEND = """async ([path, body]) => (await fetch(path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
})).status"""
COLOUR = """(picture) => {
    const paper = new OffscreenCanvas(1, 1).getContext("2d");
    paper.drawImage(picture, 0, 0, 1, 1);
    return [...paper.getImageData(0, 0, 1, 1).data].slice(0, 3);
}"""


def name_classes(page: Any, *names: str) -> None:  # noqa: ANN401
    page.keyboard.press("n")
    page.keyboard.type("".join(f"{name}\n" for name in names))
    page.wait_for_selector(f'#classes [title^="{names[-1]}:"]')
    page.keyboard.press("Escape")


def open_menu(page: Any, name: str) -> None:  # noqa: ANN401
    page.locator("#classes li", has_text=name).hover()
    page.locator("#classes li", has_text=name).locator(".menu").click()
    page.wait_for_selector("#dialog[open]")


def test_classes_are_renamed_merged_and_deleted(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    write_pictures(tmp_path / "pictures", 12)
    with served_here(tmp_path / "pictures") as url:
        page = open_page(browser, url)
        name_classes(page, "red", "gren", "green", "blue")
        for place, class_id in ((0, 1), (1, 2), (4, 3), (7, 3), (2, 4)):
            body = {"items": {str(place): 0}, "class_id": class_id}
            assert page.evaluate(SEND, ["/api/label", body]) == 200
        page.wait_for_selector('[title^="green: 2 labelled"]')
        open_menu(page, "gren")
        page.get_by_label("Merge into", exact=True).select_option("green")
        page.get_by_role("button", name="Merge", exact=True).click()
        page.wait_for_selector(".toast >> text=gren merged into green")
        page.wait_for_selector('[title^="green: 3 labelled"]')
        page.wait_for_selector('[title^="gren:"]', state="detached")
        page.keyboard.press("Control+z")
        page.wait_for_selector('[title^="gren: 1 labelled"]')
        page.wait_for_selector('[title^="green: 2 labelled"]')
        open_menu(page, "blue")
        page.locator("#dialog input").fill("navy")
        page.keyboard.press("Enter")
        page.wait_for_selector('[title^="navy: 1 labelled"]')
        open_menu(page, "navy")
        page.locator("#dialog .danger").click()
        page.wait_for_selector(".toast >> text=navy deleted")
        page.wait_for_selector('[title^="navy:"]', state="detached")
        page.context.close()


def test_classes_that_somebody_else_changes(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    write_pictures(tmp_path / "pictures", 12)
    with served_here(tmp_path / "pictures") as url:
        page, other = open_page(browser, url), open_page(browser, url)
        name_classes(page, "red", "green")
        other.wait_for_selector('#classes [title^="green:"]')
        open_menu(page, "green")
        _change_first(page, other)
        _label_of_a_deleted_class(page)
        other.context.close()
        page.context.close()


def _change_first(page: Any, other: Any) -> None:  # noqa: ANN401
    """While the page shows the menu of a class, somebody renames it and labels an item."""
    assert other.evaluate(SEND, ["/api/classes/2/rename", {"name": "lime"}]) == 200
    page.wait_for_selector('#classes [title^="lime:"]')
    with page.expect_request("**/delete") as sent:
        page.locator("#dialog .danger").click()
    assert {"seen", "seen_revision"} <= set(json.loads(sent.value.post_data))
    page.wait_for_selector(".toast.bad >> text=lime")
    labelling = {"items": {"5": 0}, "class_id": 2}
    open_menu(page, "lime")
    assert other.evaluate(SEND, ["/api/label", labelling]) == 200
    page.wait_for_selector('#classes [title^="lime: 1 labelled"]')
    page.locator("#dialog .danger").click()
    page.wait_for_selector(".toast.bad >> text=labelled items as lime")
    open_menu(page, "lime")
    page.locator("#dialog .danger").click()
    page.wait_for_selector(".toast >> text=lime deleted")
    page.wait_for_selector('[title^="lime:"]', state="detached")


def _label_of_a_deleted_class(page: Any) -> None:  # noqa: ANN401
    """Count an item as open again when the class of its label is gone."""
    counts = page.evaluate(
        """async () => {
            const { counts, labelOf, takeLabels, takeChanges } = await import("/static/state.js");
            takeChanges({ classes: [], labels: [[7, 1, 10 ** 6], [8, 2, 10 ** 6]] });
            const { labelled, open } = counts();
            return [labelOf(7), labelOf(8), labelled, open];
        }"""
    )
    assert counts == [1, None, 1, 11]


def test_files_that_change_while_they_are_shown(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    folder = tmp_path / "pictures"
    write_pictures(folder, 6)
    with served_here(folder) as url:
        page = open_page(browser, url)
        picture = page.locator("#item-0 img")
        page.locator("#encoding").wait_for(state="hidden")
        for colour in ((240, 240, 10), (10, 240, 240)):  # changed, and changed once more
            Image.new("RGB", (24 + colour[0], 24), colour).save(folder / "0000.png")
            wait_until(partial(_shows, picture, colour), 30)
        page.wait_for_selector("#files >> text=1 file to look at")
        for name in ("0006", "0007"):  # new files come last, and are counted at once
            Image.new("RGB", (24, 24), (9, 9, 9)).save(folder / f"{name}.png")
        page.wait_for_selector("#view-about >> text=/^8 items/")
        assert page.locator("#again").is_hidden()
        page.context.close()


def _shows(picture: Any, wanted: tuple[int, int, int]) -> bool:  # noqa: ANN401
    colour = picture.evaluate(COLOUR)
    return all(abs(one - other) < 12 for one, other in zip(colour, wanted, strict=True))


def test_texts_that_change_and_rows_that_are_gone(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    table = tmp_path / "letters.csv"
    table.write_text("text\n" + "".join(f"{'ab' * n}a\n" for n in range(1, 9)))
    with served_here(table, encoder=Letters()) as url:
        page = open_page(browser, url)
        name_classes(page, "one", "two")
        page.keyboard.press("Home")
        for rank, key in enumerate("121"):
            page.keyboard.press(key)
            page.wait_for_selector(f"#item-{rank}[data-state=given]")
        page.keyboard.press("Space")
        page.wait_for_selector("#detail h2 >> text=/^Text 4$/")
        page.context.close()
    table.write_text("text\n" + "".join(f"{'ab' * n}a\n" for n in range(3, 9)))
    with served_here(table, encoder=Letters()) as url:
        page = open_page(browser, url)
        page.wait_for_selector("#files >> text=2 rows to look at")
        page.locator("#files").click()
        page.wait_for_selector("#dialog >> text=2 labelled texts are no longer in the table.")
        assert page.locator("#dialog li").all_inner_texts() == ["aba", "ababa"]
        page.keyboard.press("Escape")
        table.write_text("text\nab\n")
        page.wait_for_selector("#files >> text=The table changed")
        page.locator("#files").click()
        page.wait_for_selector("#dialog >> text=letters.csv has changed")
        page.context.close()


def test_conflicts_are_decided_and_nothing_is_dropped_silently(
    browser: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    write_pictures(tmp_path / "pictures", 6)
    with served_here(tmp_path / "pictures") as url:
        page = open_page(browser, url)
        name_classes(page, "red", "green")
        page.context.close()
        deaf = open_page(browser, url, deaf=True)
        body = {"items": {"1": 0}, "class_id": 1}
        for way, labelled in (("Escape", 1), ("Enter", 6)):
            assert deaf.evaluate(SEND, ["/api/label", body]) == 200
            body = {"items": {"3": 0}, "class_id": 1}
            deaf.locator("#grid").focus()
            deaf.keyboard.press("Control+a")
            deaf.keyboard.press("2")
            deaf.wait_for_selector("#dialog[open] >> text=Keep theirs, label the other 5")
            deaf.keyboard.press(way)
            deaf.wait_for_selector("#dialog", state="hidden")
            if way == "Escape":
                deaf.wait_for_selector(".toast.bad >> text=Nothing was labelled")
                deaf.wait_for_selector("#bar >> text=6 selected")
            deaf.wait_for_selector(f"[data-key=view-labelled] small:text-is('{labelled}')")
        deaf.context.close()
