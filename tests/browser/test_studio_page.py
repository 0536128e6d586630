"""The page of the studio, step by step: what it sends, shows, and does with each key."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.browsers import CHROMIUM, open_page, served_here
from helpers.studios import wait_until, write_pictures

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
COUNT, LABELLED = 60, 12
SEND = """async ([path, body]) => (await fetch(path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
})).json()"""
ESTIMATE = {
    **{"sentence": "About 91 % right", "short": "91 % ± 3", "labels": LABELLED, "confirmed": 0},
    **{"now": {"mean": 0.91, "low": 0.88, "high": 0.94}, "curve": [], "suspicious": []},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "pictures"
    write_pictures(folder, COUNT)
    return folder


@pytest.fixture(scope="module")
def studio(browser: Any, folder: Path) -> Iterator[str]:  # noqa: ANN401
    """Serve a studio with three classes, four labels of each, and answers to the rest."""
    with served_here(folder) as url:
        page = open_page(browser, url)
        for name in ("red", "green", "blue"):
            page.evaluate(SEND, ["/api/classes", {"name": name}])
        classes = {place: 1 + place % 3 for place in range(LABELLED)}
        body = {"items": dict.fromkeys(classes, 0), "classes": classes}
        page.evaluate(SEND, ["/api/label", body])
        page.wait_for_selector("[title^='blue: 4 labelled, 16 answered']")
        page.context.close()
        yield url


@pytest.fixture
def page(browser: Any, studio: str) -> Iterator[Any]:  # noqa: ANN401
    """Open a page that hears no news, so that a test can make up its own."""
    page = open_page(browser, studio, deaf=True)
    wait_until(lambda: is_settled(page.request.get(f"{studio}api/state").json()), 30)
    page.reload()
    open_view(page, "all")
    yield page
    close(page)


@pytest.fixture
def live(browser: Any, studio: str) -> Iterator[Any]:  # noqa: ANN401
    page = open_page(browser, studio)
    page.wait_for_selector("[title^='blue: 4 labelled, 16 answered']")
    yield page
    close(page)


def is_settled(state: Any) -> bool:  # noqa: ANN401
    """Tell whether there are only the first labels, and the answers to them."""
    labels = [label for label in state["changes"]["labels"] if label[1] is not None]
    answers = zip(state["answers"]["places"], state["answers"]["best"], strict=True)
    return len(labels) == LABELLED and all(best == 1 + place % 3 for place, best in answers)


def close(page: Any) -> None:  # noqa: ANN401
    """Undo all that was done on a page."""
    page.evaluate(
        "import('/static/actions.js').then(async ({ undo }) => { while (await undo()); })"
    )
    page.context.close()


def open_view(page: Any, name: str) -> None:  # noqa: ANN401
    page.locator(f"[data-key=view-{name}]").click()
    page.wait_for_selector(f"[data-key=view-{name}][aria-current]")
    page.wait_for_selector("#view-about:not(:has-text('One moment'))")


def tell(page: Any, name: str, told: Any = None) -> None:  # noqa: ANN401
    """Call a function of state.js, as an event of the server does."""
    code = "([name, told]) => import('/static/state.js').then((own) => own[name](told))"
    page.evaluate(code, [name, told])


def card(name: str, state: str = "given") -> str:
    return f'.card[data-name="{name}"][data-state="{state}"]'


def order(page: Any) -> list[int]:  # noqa: ANN401
    code = "import('/static/views.js').then((own) => own.view.order)"
    return list(page.evaluate(code))


def origin_of(page: Any, act: Any) -> tuple[int, str]:  # noqa: ANN401
    """Return how many items are labelled by what somebody does, and how that came about."""
    with page.expect_request("**/api/label") as sent:
        act()
    body = json.loads(sent.value.post_data)
    return len(body["items"]), body["origin"]


def test_labels_carry_how_they_came_about(page: Any) -> None:  # noqa: ANN401
    press = page.keyboard.press
    page.locator('.card[data-name="0012.png"]').click()
    assert origin_of(page, lambda: press("1")) == (1, "chosen")
    for view in ("next", "doubtful"):
        open_view(page, view)
        for key in ("Enter", "1"):
            assert origin_of(page, lambda key=key: press(key)) == (1, "suggested")
    for number, way in ((2, "#bar .primary"), (3, "#bar .choice >> nth=0")):
        page.locator(f"[data-key=class-{number}]").click()
        page.wait_for_selector(f"[data-key=class-{number}][aria-current]")
        page.locator("#select-sure").click()
        number, origin = origin_of(page, page.locator(way).click)
        assert number > 1
        assert origin == "confirmed"


def test_a_label_that_is_checked_is_sent_again(page: Any) -> None:  # noqa: ANN401
    tell(page, "takeEstimate", {**ESTIMATE, "suspicious": [[0, 2, 0.9], [4, 3, 0.9]]})
    open_view(page, "flagged")
    assert "contradict" not in page.locator("#view-about").inner_text()
    assert page.locator(".card.focused").get_attribute("data-name") == "0000.png"
    assert origin_of(page, lambda: page.keyboard.press("Enter")) == (1, "checked")
    page.wait_for_selector("[data-key=view-flagged] small >> text=/^1$/")
    page.wait_for_selector('.card.focused[data-name="0004.png"]')


def test_accuracy_and_what_was_checked(page: Any) -> None:  # noqa: ANN401
    tell(page, "takeEstimate")
    open_view(page, "flagged")
    page.wait_for_selector("#nothing >> text=Not checked yet")
    tell(page, "takeEstimate", ESTIMATE)
    page.wait_for_selector("#nothing >> text=No label looks wrong")
    pill = page.locator("#accuracy")
    page.wait_for_selector("#accuracy:text-is('≈ 91 % ± 3 right')")
    tell(page, "takeEstimate", {**ESTIMATE, "labels": LABELLED - 3, "confirmed": 2})
    page.wait_for_selector("#accuracy:text-is('≈ 91 % ± 3 right …')")
    assert "updated" in pill.get_attribute("title")
    levels = [[1, 0.5, 0.4, 0.6], [9.6, 0.8, 0.7, 0.9], [10, 0.9, 0.8, 1]]
    tell(page, "takeEstimate", {**ESTIMATE, "curve": levels})
    pill.click()
    page.wait_for_selector("#dialog >> text=confirmed many at once are left out")
    assert page.locator(".tick-text").all_text_contents() == ["10", "1"]


def test_next_items_are_fetched_and_have_the_keys_at_once(live: Any) -> None:  # noqa: ANN401
    open_view(live, "next")
    before = order(live)
    live.locator("#more-next").click()
    wait_until(lambda: order(live) != before)
    others = order(live)
    assert not set(before) & set(others)
    held: list[Any] = []
    hold = lambda route: held.append(route)  # noqa: E731, PLW0108 - Playwright takes no built-in method
    live.route("**/api/next*", hold)
    for _ in others:
        live.keyboard.press("1")
    live.wait_for_selector("#view-about >> text=Fetching")
    held[0].continue_()
    wait_until(lambda: order(live) != others)
    live.wait_for_selector("#view-about:not(:has-text('Fetching'))")
    first = order(live)[0]
    live.wait_for_selector(f"#item-{first}.focused")
    live.keyboard.press("2")
    live.wait_for_selector(f"#item-{first}[data-state=given]")


def test_a_key_before_the_next_frame_reaches_the_first_new_item(page: Any) -> None:  # noqa: ANN401
    focus_and_show = """async () => {
        const grid = await import("/static/grid.js");
        const views = await import("/static/views.js");
        document.getElementById("grid").focus();
        grid.focusOn(5);
        await views.show("next");
        const key = new KeyboardEvent("keydown", { key: "1", bubbles: true });
        document.getElementById("grid").dispatchEvent(key);
        return views.view.order[0];
    }"""
    with page.expect_request("**/api/label") as sent:
        first = page.evaluate(focus_and_show)
    assert list(sent.value.post_data_json["items"]) == [str(first)]


def test_labels_of_one_item_in_quick_succession_do_not_conflict(live: Any) -> None:  # noqa: ANN401
    label_twice = """async () => {
        const { labelEach } = await import("/static/actions.js");
        const both = [labelEach(new Map([[50, 1]])), labelEach(new Map([[50, 2]]))];
        const asked = new Promise((end) => setTimeout(end, 10000, "asked"));
        return Promise.race([Promise.all(both), asked]);
    }"""
    assert live.evaluate(label_twice) == [True, True]
    labels = live.request.get(f"{live.url.split('#')[0]}api/state").json()["changes"]["labels"]
    assert [class_id for place, class_id, *_ in labels if place == 50] == [2]


def test_enter_renames_a_class(page: Any) -> None:  # noqa: ANN401
    page.locator("#classes li", has_text="blue").hover()
    page.locator("[data-key=menu-3]").click()
    assert page.evaluate("document.activeElement.value") == "blue"
    page.keyboard.type("navy")
    page.keyboard.press("Enter")
    page.wait_for_selector(".toast >> text=blue is now navy")


def test_answers_that_take_long_are_on_their_way(page: Any) -> None:  # noqa: ANN401
    page.locator('.card[data-name="0013.png"]').click()
    page.keyboard.press("2")
    page.wait_for_selector(card("0013.png"))
    assert page.locator("#answering").is_hidden()
    page.wait_for_selector("#answering:not([hidden])")
    tell(page, "takeRest", {"revision": 1})
    assert page.locator("#answering").is_visible()
    tell(page, "takeRest", {"revision": 10**6})
    page.wait_for_selector("#answering", state="hidden")


def test_files_that_are_gone_or_unreadable(page: Any) -> None:  # noqa: ANN401
    gone = {"0": "the file is gone", "14": "the file is gone"}
    progress = {**{"done": COUNT, "total": COUNT, "trouble": ""}, "failures": gone}
    code = """(told) => import('/static/state.js').then((own) => {
        own.state.progress = told;
        own.changed();
    })"""
    missing = {"missing_items": [], "missing_sentence": "", "source": ""}
    page.evaluate(code, {**progress, **missing, "changed": [14]})
    page.wait_for_selector(f"{card('0000.png')} >> text=unreadable")
    page.wait_for_selector(f"{card('0014.png', 'failed')} >> text=Unreadable")
    assert page.locator("#files").inner_text() == "2 files to look at"
    page.locator('.card[data-name="0014.png"]').click()
    page.keyboard.press("1")
    page.wait_for_selector(".toast.bad >> text=Not labelled because unreadable: 0014.png")
    page.locator("#classes .row", has_text="blue").click()
    page.wait_for_selector("[data-key=class-3][aria-current]")
    assert 14 not in order(page)
    page.set_viewport_size({"width": 420, "height": 800})
    assert page.locator("#files").inner_text() == "2"
    page.locator("#files").click()
    page.wait_for_selector("#dialog >> text=/0014\\.png . the file is gone/")


def test_keys_label_only_what_stands_out(page: Any) -> None:  # noqa: ANN401
    press = page.keyboard.press
    page.locator("#undo").focus()
    press("1")
    page.wait_for_selector(".toast >> text=press again")
    assert page.locator(card("0000.png")).inner_text().startswith("red")
    assert page.evaluate("document.activeElement.id") == "grid"
    press("v")
    page.wait_for_selector("#dialog[open] >> text=Go to")
    page.keyboard.type("most n")
    press("Enter")
    page.wait_for_selector("[data-key=view-novel][aria-current]")
    first = page.locator(".card.focused")
    assert first.evaluate("box => getComputedStyle(box).outlineStyle") == "solid"
    press("v")
    page.keyboard.type("gre")
    press("Enter")
    page.wait_for_selector("[data-key=class-2][aria-current]")
    page.locator("[data-key=view-all]").focus()
    press("Enter")
    page.wait_for_selector("[data-key=view-all][aria-current]")
    assert page.evaluate("document.activeElement.id") == "grid"


def test_a_class_keeps_its_key(page: Any) -> None:  # noqa: ANN401
    def rows(*named: tuple[int, str, bool]) -> None:
        classes = [
            {"id": number, "name": name, "deleted": gone, "version": 10**6}
            for number, name, gone in named
        ]
        tell(page, "takeChanges", {"classes": classes, "labels": []})

    def keys() -> list[str]:
        return [text[-1] for text in page.locator("#classes .row kbd").all_inner_texts()]

    rows((1, "red", True))
    wait_until(lambda: keys() == ["2", "3"])
    rows((4, "white", False), (5, "9", False))
    wait_until(lambda: keys() == ["2", "3", "1", "9"])


def test_why_stands_above_the_classes(page: Any) -> None:  # noqa: ANN401
    page.locator('.card[data-name="0012.png"]').dblclick()
    page.wait_for_selector("#why figure")
    why = page.locator("#why").bounding_box()
    assert why["y"] + why["height"] < page.locator("#detail-choices").bounding_box()["y"]


def test_one_touch_offers_the_classes(browser: Any, studio: str) -> None:  # noqa: ANN401
    page = open_page(browser, studio, 420, 800, deaf=True, has_touch=True)
    page.tap(".card >> nth=1")
    page.wait_for_selector("#bar >> text=1 selected")
    page.wait_for_selector("#bar .choice >> text=/None of these\\s*0/")
    with page.expect_request("**/api/label"):
        page.tap("#bar .choice >> nth=0")
    page.wait_for_selector("#bar >> text=1 selected")  # the next one
    close(page)


def test_exports_are_counted_as_in_the_table(page: Any) -> None:  # noqa: ANN401
    places = list(range(LABELLED, COUNT))
    one = [1 for _ in places]
    novel = [0.97, 0.97, *(0.1 for _ in places[2:])]
    sure = [0.6, 0.9, 0.6, *(0.9 for _ in places[3:])]
    answers = {"places": places, "best": one, "second": one, "p": sure, "p2": novel}
    tell(page, "takeAnswers", {**answers, "novelty": novel})
    page.locator("#export").click()
    page.wait_for_selector("#dialog >> text=12 labels, 45 likely answers, 1 doubtful, 2 novel.")


def test_the_view_outlives_a_reload_and_labels_a_lost_studio(page: Any) -> None:  # noqa: ANN401
    page.locator("#classes .row", has_text="green").click()
    page.wait_for_selector("[data-key=class-2][aria-current]")
    page.reload()
    page.wait_for_selector("[data-key=class-2][aria-current]")
    page.wait_for_selector(".card.focused")
    name = page.locator(".card.focused").get_attribute("data-name")
    page.route("**/api/label", lambda route: route.abort())
    page.keyboard.press("1")
    page.wait_for_selector(f".toast.bad >> text=Not saved: {name}")
    page.wait_for_selector(f'.card.focused[data-name="{name}"]:not([data-state="given"])')
    page.fill("#search", "0015")
    page.wait_for_selector('.card[aria-setsize="1"]')
    page.reload()
    page.wait_for_selector('.card[aria-setsize="1"]')
    assert page.input_value("#search") == "0015"


def test_nothing_is_promised_when_everything_is_labelled(page: Any) -> None:  # noqa: ANN401
    labels = [[place, 1, 10**6] for place in range(COUNT)]
    tell(page, "takeChanges", {"classes": [], "labels": labels})
    open_view(page, "doubtful")
    page.wait_for_selector("#nothing >> text=Every item is labelled.")
