"""Folders of made pictures, and studios on them that answer in no time."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from helpers.asgi import HOST, ask
from helpers.colours import MeanColour
from unitail.studio.catalogue import Catalogue
from unitail.studio.schema import database_of
from unitail.studio.state import NONE
from unitail.studio.store import Store
from unitail.studio.stored_rows import ActionResult
from unitail.studio.studio import Studio
from unitail.web.replies import App

COLOURS = {"red": (210, 50, 40), "green": (60, 170, 70), "blue": (50, 80, 200)}


def write_pictures(folder: Path, count: int, *, side: int = 24, seed: int = 0) -> list[str]:
    """Write `count` noisy pictures, in turn of each colour; return the colour of each."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    names = [list(COLOURS)[number % len(COLOURS)] for number in range(count)]
    for number, name in enumerate(names):
        colour = np.array(COLOURS[name]) + generator.normal(0, 18, 3)
        pixels = colour + generator.normal(0, 25, (side, side, 3))
        image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
        image.save(folder / f"{number:04}.png")
    return names


def open_studio(source: Path, **options: Any) -> Studio:  # noqa: ANN401 - as `Studio` takes them
    """Open a studio on a folder of pictures, or on a table."""
    if source.is_dir():
        options.setdefault("encoder", MeanColour())
    store = Store(database_of(source, None))
    return Studio(Catalogue.read(source), store, device="cpu", **options)


def answered(studio: Studio) -> Studio:
    """Encode and answer everything, in this thread."""
    studio.vectors.encode_all()
    studio.answerer.answer_all()
    return studio


def add(studio: Studio, *names: str) -> list[int]:
    """Add classes, and return their ids."""
    done = [studio.apply(lambda store, name=name: store.add_class(name)) for name in names]  # type: ignore[misc]
    return [each.class_id for each in done if each.class_id is not None]


def label(studio: Studio, **places: list[int]) -> ActionResult:
    ids = {row.name: row.id for row in studio.labels.classes()}
    wishes: dict[int, int | None] = {
        place: ids[name] for name, own in places.items() for place in own
    }
    seen = {place: studio.labels.row(place).version for place in wishes}
    return studio.label(wishes, seen, author="")


def answers(studio: Studio) -> list[str]:
    names = {row.id: row.name for row in studio.labels.classes()} | {NONE: "-"}
    best = studio.answers.at(np.arange(len(studio.catalogue))).class_ids[:, 0]
    return [names[each] for each in best.tolist()]


def wait_until(is_so: Callable[[], bool], seconds: float = 180) -> None:
    """Wait for threads."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it never came to pass"
        time.sleep(0.01)


def get(app: App, path: str) -> Any:  # noqa: ANN401
    """Ask for JSON, and expect it."""
    reply = ask(app, "GET", path)
    assert reply.status == 200, reply.body
    return json.loads(reply.body)


def post(
    app: App, path: str, body: object, status: int = 200, *, browser: str = "0123456789abcdef"
) -> Any:  # noqa: ANN401
    """Send JSON from a browser with this id, and expect a status."""
    headers = {**HOST, "content-type": "application/json", "cookie": f"unitail_author={browser}"}
    reply = ask(app, "POST", path, headers, [json.dumps(body).encode()])
    assert reply.status == status, reply.body
    return json.loads(reply.body)
