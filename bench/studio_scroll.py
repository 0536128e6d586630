"""Frame times while scrolling 10,000 items in the studio's page, in Chromium.

    python bench/studio_scroll.py --out results/studio_scroll.md

10,000 small images, three classes with two labels each, all predicted. The page is scrolled by a
wheel through a view of all items, once in their order and once the most doubtful first, and a label
is set between two turns of the wheel. *Work* is the time that the page's own scripts take in a
frame; *frame* is the time between frames, which other load on the machine increases: Chromium
renders here without a GPU.
"""

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from measuring.page import Page
from measuring.timing import wait_until
from numpy.typing import NDArray
from PIL import Image

from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.images import read_image

COLOURS = {"red": (200, 60, 50), "green": (70, 160, 70), "blue": (60, 80, 190)}
WHEEL = 600
"""Pixels per turn of the wheel."""
WATCH = """
window.frames_seen = []; window.work_seen = [];
const ask = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (take) => ask((now) => {
  const start = performance.now();
  take(now);
  window.work_seen.push(performance.now() - start);
});
let last = null;
const tick = (now) => {
  if (last !== null) window.frames_seen.push(now - last);
  last = now;
  ask(tick);
};
ask(tick);
"""


class MeanColour(Encoder[NDArray[np.float32]]):
    """Encodes an image as its mean colour, so that the page and not an encoder is measured."""

    modality = Modality.IMAGE

    def __init__(self) -> None:
        super().__init__(name="mean-colour", width=3, fingerprint="mean-colour", batch_size=256)

    def read(self, item: object) -> NDArray[np.float32]:
        """Read the mean colour."""
        means: NDArray[np.float32] = np.asarray(read_image(item), np.float32).mean(axis=(0, 1))
        return means

    def embed(self, batch: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Stack the mean colours."""
        return np.stack(batch)


def write_images(folder: Path, count: int) -> None:
    """Write images of three colours in turn."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    for number in range(count):
        colour = np.array(list(COLOURS.values())[number % 3]) + generator.normal(0, 25, 3)
        pixels = np.clip(colour + generator.normal(0, 30, (12, 16, 3)), 0, 255)
        image = Image.fromarray(pixels.astype(np.uint8)).resize((160, 120))
        image.save(folder / f"{number:05}.jpg", quality=60)


def serve(folder: Path) -> None:
    """Serve a studio, and print its address."""
    import uvicorn

    from unitail.studio.app import make_app
    from unitail.studio.catalogue import Catalogue
    from unitail.studio.schema import database_of
    from unitail.studio.store import Store
    from unitail.studio.studio import Studio
    from unitail.web.access import Access

    store = Store(database_of(folder, None))
    studio = Studio(Catalogue.read(folder), store, encoder=MeanColour(), device="cpu")
    keys = studio.catalogue.keys
    store.label_by_name({keys[place]: list(COLOURS)[place % 3] for place in range(6)})
    studio.sync()
    app = make_app(studio, Access.at("127.0.0.1"))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))

    async def run() -> None:
        task = asyncio.create_task(server.serve())
        while not (server.started or task.done()):
            await asyncio.sleep(0.05)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)
        await task

    asyncio.run(run())


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the studio in another process."""
    command = [sys.executable, __file__, "--serve", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def scroll(page: Any, view: str, *, turns: int, label: bool) -> tuple[NDArray[Any], NDArray[Any]]:  # noqa: ANN401
    """Turn the wheel through a view; return frame times and script times in ms."""
    page.locator(f"[data-key=view-{view}]").click()
    page.wait_for_selector(f"[data-key=view-{view}][aria-current]")
    page.wait_for_selector(".card img")
    page.mouse.move(700, 500)
    page.evaluate("window.frames_seen = []; window.work_seen = []")
    for turn in range(turns):
        page.mouse.wheel(0, WHEEL)
        if label and turn % max(1, turns // 10) == 0:
            page.mouse.click(700, 500)
            page.keyboard.press("1")
        page.wait_for_timeout(16)
    enough = f"document.getElementById('grid').scrollTop > {turns * WHEEL / 4}"
    # Else nothing was measured; a busy machine is late. Within the page its policy forbids `eval`.
    wait_until(lambda: page.evaluate(enough), "the page has scrolled")
    read = page.evaluate("[window.frames_seen, window.work_seen]")
    return np.array(read[0]), np.array(read[1])


def answered(title: str | None) -> int:
    """Parse how many items are predicted from the title of a class."""
    match = re.search(r", (\d+) answered", title or "")
    return int(match[1]) if match else 0


def measure(out: Page, url: str, chromium: str, count: int, turns: int) -> None:
    """Run all measurements and fill the table."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = started.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.add_init_script(WATCH)
        page.set_default_timeout(120_000)
        page.goto(url)
        page.wait_for_selector(".card img")
        page.wait_for_selector("#encoding", state="hidden")
        first = page.locator("#classes .row").first
        enough = count // 4
        wait_until(
            lambda: answered(first.get_attribute("title")) >= enough, f"{enough} were answered"
        )
        for view, label, name in (
            ("all", False, "all items"),
            ("doubtful", False, "most doubtful first"),
            ("all", True, "all items, ten labels meanwhile"),
        ):
            frames, work = scroll(page, view, turns=turns, label=label)
            cells = [f"{np.quantile(work, q):.1f}" for q in (0.5, 0.95, 0.99, 1)]
            cells += [f"{np.quantile(frames, q):.0f}" for q in (0.5, 0.95, 0.99)]
            shown = page.locator(".card").count()
            out.row(name, f"{count:,}", shown, len(frames), *cells)
        browser.close()


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=150, help="of the wheel, in each view")
    parser.add_argument("--serve", type=Path, help="serve this folder, and do nothing else")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve)
        return
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None or args.out is None:
        parser.error("Chromium must be installed, and --out be given")
    version = subprocess.run([chromium, "--version"], capture_output=True, text=True, check=True)
    name = re.sub(r"\s+", " ", version.stdout).strip()
    page = Page(
        args.out,
        f"Scrolling {args.items:,} items in the studio",
        f"{name}, without a graphics card, on {os.cpu_count()} cores with a load of"
        f" {os.getloadavg()[0]:.1f}; milliseconds. *Work* is what the page's scripts take in a"
        " frame, *frame* the time from one to the next. Smooth is work of less than 16 ms.",
    )
    page.table(
        (
            *("view", "items", "cards there", "frames"),
            *("work, median", "95 %", "99 %", "longest"),
            *("frame, median", "95 %", "99 %"),
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder) / "images", args.items)
        with served(Path(folder) / "images") as url:
            measure(page, url, chromium, args.items, args.turns)


if __name__ == "__main__":
    main()
