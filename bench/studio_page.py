"""Waiting times in the studio's page: 2,000 items of 20 classes, in Chromium.

    python bench/studio_page.py --banks BANKS --out results/studio_page.md

From the key press that labels an item to the frame that shows new predictions, of the cards on the
screen and of all unlabelled items: the request, the transaction, the fit, the predictions, the
server's events and the page's own work. Labels follow each other after a pause, in which the studio
predicts with a pool and estimates accuracies, as in normal use.
"""

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from measuring.page import Page
from measuring.timing import device_name, wait_until
from studio_latency import labelled_studio, read_items, with_sizes

from unitail.studio.studio import Studio

WATCH = """
const add = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (name, take) {
  const own = (event) => { take(event); window.hear?.(JSON.parse(event.data).places); };
  return add.call(this, name, name === "answers" ? own : take);
};
const isLabelled = (place) =>
  document.getElementById(`item-${place}`)?.dataset.state === "given";
window.begin = (count) => {
  const cards = [...document.querySelectorAll(".card")].map((card) => Number(card.dataset.place));
  const told = new Set(), times = {};
  window.times = null;
  const note = () => (times.start = performance.now());
  addEventListener("keydown", note, { capture: true, once: true });
  window.hear = (places) => {
    if (times.start === undefined) return;
    for (const place of places) told.add(place);
    const isTold = (place) => told.has(place);
    const screen = !times.screen && cards.filter((place) => !isLabelled(place)).every(isTold);
    const all = told.size >= count;
    if (all) window.hear = null;
    requestAnimationFrame(() => {
      if (screen) times.screen = performance.now();
      if (all) window.times = [times.screen - times.start, performance.now() - times.start];
    });
  };
};
"""

Times = dict[str, list[list[float]]]
"""Milliseconds until the screen and until all items are updated, for each action."""


@contextmanager
def served(studio: Studio) -> Iterator[str]:
    """Serve a studio in threads of this process."""
    import uvicorn

    from unitail.studio.app import make_app
    from unitail.web.access import Access

    app = make_app(studio, Access.at("127.0.0.1"))
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="error", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started or not thread.is_alive(), "the server had started")
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(20)


def label_times(page: Any, sizes: tuple[int, int, int], repeats: int, pause: float) -> Times:  # noqa: ANN401
    """Label items by keys, and return the ms until the screen and all items are updated.

    First one item after the other, near the end, so that the last one is next; then that again and
    again. `sizes` are the numbers of items, of those that have labels at first, and of classes.
    """
    count, labelled, ways = sizes
    page.locator("[data-key=view-all]").click()
    page.wait_for_selector("[data-key=view-all][aria-current]")
    page.locator("#grid").focus()
    page.keyboard.press("End")
    for _ in range(repeats + 1):
        page.keyboard.press("ArrowLeft")
    times: Times = {"one more": [], "one changed": []}
    for number in range(2 * repeats + 2):
        page.wait_for_timeout(1000 * pause)
        open_items = count - labelled - min(number, repeats) - 1  # when the key is pressed
        page.evaluate(f"window.begin({open_items})")
        page.keyboard.press(str(1 + number % min(9, ways)))
        wait_until(lambda: page.evaluate("window.times"), "all were answered", limit=60)
        if number not in (0, repeats + 1):  # the first one does not count
            name = "one more" if number <= repeats else "one changed"
            times[name].append(page.evaluate("window.times"))
    return times


def next_times(page: Any, repeats: int, pause: float) -> list[float]:  # noqa: ANN401
    """Request what to label next, and return the ms until it is shown."""
    times = []
    for _ in range(repeats):
        page.locator("[data-key=view-all]").click()
        page.wait_for_timeout(1000 * pause)
        start = time.perf_counter()
        with page.expect_response("**/api/next*") as response:
            page.locator("[data-key=view-next]").click()
        selector = f"#item-{response.value.json()[0]}"
        page.wait_for_selector(selector)
        times.append(1000 * (time.perf_counter() - start))
    return times


def in_words(times: Sequence[float]) -> list[str]:
    """Format the median, the minimum and the maximum."""
    return [f"{each:.0f}" for each in (statistics.median(times), min(times), max(times))]


def main() -> None:
    """Measure and write the table."""
    parser = with_sizes(__doc__)
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between two labels")
    args = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        parser.error("Chromium must be installed")
    from playwright.sync_api import sync_playwright

    rows, truths = read_items(args)
    out = Page(
        args.out,
        "How long somebody waits in the studio",
        f"{len(rows):,} items of {args.ways} classes, {rows.shape[1]} wide, {args.bank}; server and"
        f" Chromium on one machine, {device_name(torch.device('cpu'))}. From the key that labels an"
        " item to the frame that shows new answers: on the screen, and all. A label every"
        f" {args.pause:g} s, while the studio answers with a pool and estimates accuracies, too."
        f" *Label next*: from the click to the cards. Milliseconds, of {args.repeats}.",
        BANKS=args.banks,
    )
    out.table(["labels", "what", "median", "fastest", "slowest"])
    with sync_playwright() as started:
        flags = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = started.chromium.launch(executable_path=chromium, args=flags)
        for count in args.labels:
            with tempfile.TemporaryDirectory() as folder:
                studio = labelled_studio(Path(folder) / "items.csv", rows, truths[:count])
                with served(studio) as url:
                    page = browser.new_page(viewport={"width": 1280, "height": 800})
                    page.set_default_timeout(120_000)
                    page.add_init_script(WATCH)
                    page.goto(url)
                    page.wait_for_selector(".card")
                    sizes = len(rows), count, args.ways
                    for name, times in label_times(page, sizes, args.repeats, args.pause).items():
                        for place, what in enumerate(("screen", "all")):
                            text = in_words([each[place] for each in times])
                            out.row(count, f"{what}, {name}", *text)
                    next_seconds = next_times(page, max(1, args.repeats // 2), args.pause)
                    out.row(count, "label next", *in_words(next_seconds))
                    page.close()
        browser.close()


if __name__ == "__main__":
    main()
