"""The studio's page in low, narrow and crowded windows, and the ways back to where one was."""

from collections.abc import Iterator
from typing import Any

import pytest

from helpers.browsers import CHROMIUM, open_page, served_here
from helpers.studios import write_pictures

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
COUNT = 30
LONG = "restaurant_reservation_" + "x" * 77
SEND = """async ([path, body]) => (await fetch(path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
})).status"""
TELL = "([name, told]) => import('/static/state.js').then((own) => own[name](told))"
ESTIMATE = {
    **{"sentence": "About 77 % right with 12 labels", "short": "77 % ± 9", "labels": 12},
    **{"confirmed": 0, "now": {"mean": 0.77, "low": 0.68, "high": 0.86}, "suspicious": []},
    "curve": [[1, 0.5, 0.4, 0.6], [4, 0.62, 0.5, 0.7]],
}


@pytest.fixture(scope="module")
def empty(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:  # noqa: ANN401
    """Serve pictures without classes."""
    folder = tmp_path_factory.mktemp("empty") / "pictures"
    write_pictures(folder, COUNT)
    with served_here(folder) as url:
        yield url


@pytest.fixture(scope="module")
def studio(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:  # noqa: ANN401
    """Serve pictures with three classes, one of them with a long name, and answers."""
    folder = tmp_path_factory.mktemp("windows") / "pictures"
    write_pictures(folder, COUNT)
    with served_here(folder) as url:
        page = open_page(browser, url)
        for name in ("red", "green", LONG):
            assert page.evaluate(SEND, ["/api/classes", {"name": name}]) == 200
        classes = {place: 1 + place % 3 for place in range(12)}
        body = {"items": dict.fromkeys(classes, 0), "classes": classes}
        assert page.evaluate(SEND, ["/api/label", body]) == 200
        page.wait_for_selector("[title^='red: 4 labelled, 6 answered']")
        page.context.close()
        yield url


def box(page: Any, selector: str) -> dict[str, float]:  # noqa: ANN401
    return dict(page.locator(selector).first.bounding_box())


def inside(page: Any, inner: str, outer: str) -> bool:  # noqa: ANN401
    """Return whether each of some elements is within another one, from left to right."""
    code = """([inner, outer]) => {
        const { left, right } = document.querySelector(outer).getBoundingClientRect();
        return [...document.querySelectorAll(inner)].every((each) => {
            const own = each.getBoundingClientRect();
            return own.left >= left - 1 && own.right <= right + 1;
        });
    }"""
    return bool(page.evaluate(code, [inner, outer]))


@pytest.mark.parametrize(("width", "height"), [(780, 390), (640, 360), (320, 568)])
def test_the_hint_leaves_room_for_the_items(
    browser: Any,  # noqa: ANN401
    empty: str,
    width: int,
    height: int,
) -> None:
    page = open_page(browser, empty, width, height)
    assert box(page, "#grid")["height"] > 0.35 * height
    assert page.locator("#guide h3").is_visible()
    page.click("[aria-label='Close this hint']")
    page.wait_for_selector("#guide", state="hidden")
    assert box(page, "#grid")["height"] > 0.6 * height
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.context.close()


@pytest.mark.parametrize("width", [1024, 390])
def test_everything_can_be_reached_in_a_narrow_window(
    browser: Any,  # noqa: ANN401
    studio: str,
    width: int,
) -> None:
    page = open_page(browser, studio, width, 844, deaf=True)
    page.evaluate(TELL, ["takeEstimate", ESTIMATE])
    page.locator("#accuracy").click()
    page.wait_for_selector("#dialog >> text=The curve is about the items that you labelled")
    assert "Items without a label: 77 %" in page.locator(".curve text.open").all_text_contents()
    page.keyboard.press("Escape")
    if width == 390:
        for name in ("redo", "theme", "help"):
            page.click("#open-side")
            page.click(f"#side-{name}")
            page.keyboard.press("Escape")
        page.keyboard.press("Escape")
    assert page.locator("html").get_attribute("data-theme") == ("dark" if width == 390 else None)
    page.locator("#export").click()
    words = box(page, ".option.wide span")
    assert words["width"] > 200
    page.context.close()


def test_long_names_stay_within_what_shows_them(browser: Any, studio: str) -> None:  # noqa: ANN401
    page = open_page(browser, studio, 1280, 800, deaf=True)
    page.locator("[data-key=class-3]").click()
    page.wait_for_selector("[data-key=class-3][aria-current]")
    page.keyboard.press("Control+a")
    page.wait_for_selector("#bar .choice")
    assert inside(page, "#bar .choice kbd", "#bar")
    page.evaluate("import('/static/dom.js').then(({ toast }) => toast('Something was done'))")
    message = box(page, ".toast")
    assert message["y"] + message["height"] <= box(page, "#bar")["y"]
    page.keyboard.press("Escape")
    page.keyboard.press("Space")
    page.wait_for_selector("#detail .verdict span")
    assert inside(page, ".verdict span, .bars li, #detail-choices .choice, .facts kbd", ".facts")
    page.keyboard.press("Escape")
    page.locator("#classes li").first.hover()
    page.locator("[data-key=menu-1]").click()
    page.wait_for_selector("#dialog select")
    assert inside(page, "#dialog :is(input, select, button)", "#dialog")
    page.keyboard.press("Escape")
    page.locator("[data-key=view-all]").click()
    suspicious = {**ESTIMATE, "suspicious": [[0, 3, 0.9]]}
    page.evaluate(TELL, ["takeEstimate", suspicious])
    page.wait_for_selector("#item-0 .other")
    name = page.locator("#item-0 .chip b")
    assert name.evaluate("name => name.scrollWidth <= name.clientWidth")
    page.context.close()


def test_a_search_that_is_left_leads_back(browser: Any, studio: str) -> None:  # noqa: ANN401
    page = open_page(browser, studio, deaf=True)
    page.locator("[data-key=class-2]").click()
    page.wait_for_selector("[data-key=class-2][aria-current]")
    for leave in ("Escape", "Backspace"):
        page.keyboard.press("/")
        page.keyboard.type("3")
        page.wait_for_selector("#view-title:text-is('“3”')")
        page.keyboard.press(leave)
        page.wait_for_selector("[data-key=class-2][aria-current]")
        page.wait_for_selector("#view-title:text-is('green')")
        assert page.input_value("#search") == ""
        assert "search" not in page.url
        focus = "grid" if leave == "Escape" else "search"
        assert page.evaluate("document.activeElement.id") == focus
        page.locator("#grid").focus()
    page.keyboard.press("/")
    page.keyboard.type("3")
    page.keyboard.press("Escape")  # before the search has begun
    page.wait_for_timeout(400)
    assert page.locator("#view-title").inner_text() == "green"
    page.context.close()


def test_items_set_aside_have_a_view(browser: Any, studio: str) -> None:  # noqa: ANN401
    page = open_page(browser, studio)
    page.locator("[data-key=view-all]").click()
    assert page.locator("[data-key=aside]").is_hidden()
    page.locator("#item-13").click()
    page.keyboard.press("0")
    page.wait_for_selector("#item-13[data-state=aside]")
    page.locator("#item-14").drag_to(page.locator("[data-key=aside]"))
    page.wait_for_selector("#item-14[data-state=aside]")
    page.locator("[data-key=aside]").click()
    page.wait_for_selector("#view-title:text-is('None of these')")
    page.reload()
    page.wait_for_selector("[data-key=aside][aria-current]")
    page.wait_for_selector("#view-about >> text=/^2 items/")
    for _ in range(2):
        page.keyboard.press("u")
    page.wait_for_selector("[data-key=aside]", state="hidden")
    page.context.close()


def test_what_is_said_when_everything_is_labelled(browser: Any, studio: str) -> None:  # noqa: ANN401
    page = open_page(browser, studio, deaf=True)
    labels = [[place, 1 + place % 3, 10**6] for place in range(COUNT)]
    page.evaluate(TELL, ["takeChanges", {"classes": [], "labels": labels}])
    page.evaluate(TELL, ["takeEstimate", {**ESTIMATE, "labels": COUNT}])
    page.wait_for_selector("#accuracy:text-is('≈ 77 % ± 9 of new items right')")
    page.locator("#accuracy").click()
    page.wait_for_selector("#dialog >> text=this is about new items")
    assert page.locator(".curve .open").count() == 0
    page.keyboard.press("Escape")
    first = "import('/static/views.js').then(({ firstView }) => firstView())"
    assert page.evaluate(first) == "all"
    page.context.close()
