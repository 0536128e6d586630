"""Render items as HTML: thumbnails, texts, audio players, cells of rows; and the examples."""

import io
import os
import threading
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from unitail.encoders.encoder import Modality
from unitail.encoders.images import read_image
from unitail.errors import UserError
from unitail.inputs.cells import is_missing
from unitail.inputs.items import Items, LabelledItems
from unitail.inputs.recognise import modality_of
from unitail.wording import excerpt, numbered
from unitail.workflows.answers import Answer

SIDE = 360
"""Longer side of a thumbnail in pixels; cards show it at about two thirds of that."""
EXAMPLE_SIDE = 180
QUALITY = 72
MAX_CHARACTERS = 1200
MAX_EXAMPLES = 240
"""Number of examples shown in all, an equal number of the first ones of every class."""
MAX_NEAR = 1000
"""Number of further examples shown because they are near an answer, the most frequent first."""
MAX_NEAR_EXCERPT = 60
"""Length of the excerpt of a nearby text, in characters."""
MAX_CELLS = 12
MAX_SOUND_BYTES = 2 * 1024**2
"""Largest sound that is embedded; larger ones are linked."""
SOUNDS = {
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".oga": "audio/ogg",
    ".opus": "audio/ogg",
}
"""Sound formats that browsers play."""


def jpeg_preview(item: object, side: int, quality: int) -> bytes:
    """Return an image as JPEG, upright, with its longer side at most this many pixels."""
    image = read_image(item)
    image.thumbnail((side, side))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def text_preview(item: object, max_characters: int) -> str:
    """Return the first characters of a text or a text file; "" if it cannot be read."""
    if not isinstance(item, Path):
        text = str(item)
    else:
        try:
            with item.open("rb") as file:
                start = file.read(4 * max_characters + 4)
            text = start.decode("utf-8-sig", "replace").strip()
        except OSError:
            return ""
    return text if len(text) <= max_characters else f"{text[:max_characters].rstrip()} …"


def cell_preview(value: object, *, missing: str) -> str:
    """Format a cell of a table; `missing` stands for a missing value."""
    if is_missing(value):
        return missing
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass
class Room:
    """The bytes of media that a page may still embed; thread-safe."""

    left: int
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, size: int) -> bool:
        """Reserve this many bytes, and return whether there was room for them."""
        with self.lock:
            fits = size <= self.left
            self.left -= size if fits else 0
        return fits


def item_at(items: Items, place: int) -> object:
    """Return the item at an index; a row of a table as a dict."""
    if items.modality is Modality.TABLE:
        return items.items.iloc[place].to_dict()  # type: ignore[attr-defined]
    return items.items[place]


def item_as_html(item: object, modality: Modality, room: Room, side: int = SIDE) -> str:
    """Return the HTML of an item, or a note if it cannot be shown on the page."""
    if modality is Modality.TABLE and isinstance(item, Mapping):
        files = {name: cell for name, cell in item.items() if isinstance(cell, Path)}
        kinds = ((cell, modality_of(cell)) for cell in files.values())
        inside = [item_as_html(cell, kind, room, side) for cell, kind in kinds if kind is not None]
        return "".join(inside) + _cells({**item, **{name: files[name].name for name in files}})
    if modality is Modality.TEXT:
        return f'<p class="text">{escape(text_preview(item, MAX_CHARACTERS))}</p>'
    media = _image(item, side) if modality is Modality.IMAGE else _sound(item)
    if media is None:
        return '<p class="none">No preview.</p>'
    kind, content = media
    if not room.take(len(content)):
        return '<p class="none">Not shown: the page is too large already.</p>'
    source = f"data:{kind};base64,{b64encode(content).decode()}"
    if modality is Modality.IMAGE:
        return (
            f'<div class="image"><img src="{source}" alt="" loading="lazy" decoding="async"></div>'
        )
    return f'<div class="sound"><audio controls preload="none" src="{source}"></audio></div>'


def link(item: object, name: str, folder: Path | None) -> str:
    """Return an item's name, with a link from a page in `folder`, if any, to its file, if any."""
    if not isinstance(item, Path) or folder is None:
        return escape(name)
    try:
        target = quote(os.fsencode(os.path.relpath(item, folder).replace(os.sep, "/")))
    except ValueError:  # on another drive
        return escape(name)
    return f'<a href="{target}">{escape(name)}</a>'


class ExamplesPanel:
    """The labelled examples on a page, by which answers and wrong labels can be checked."""

    def __init__(self, examples: LabelledItems, answers: Iterable[Answer]) -> None:
        """Choose the examples to show: some of each class, and those that the answers name."""
        self._examples = examples
        by_label: dict[str, list[int]] = defaultdict(list)
        for place, label in enumerate(examples.labels[: len(examples.items)]):
            by_label[label].append(place)
        self._by_label = dict(sorted(by_label.items()))
        limit = max(MAX_EXAMPLES // max(len(by_label), 1), 1)
        first = [p for places in [*self._by_label.values()][:MAX_EXAMPLES] for p in places[:limit]]
        named = ([reason.place for reason in each.because] or each.nearest for each in answers)
        near = Counter(place for places in named for place in places)
        self._shown = {*first, *(place for place, _ in near.most_common(MAX_NEAR))}

    def as_html(self, room: Room, folder: Path | None) -> str:
        """Return the examples as HTML, by class; "" for a saved classifier, which has none."""
        if not self._by_label:
            return ""
        groups = []
        for label, places in self._by_label.items():
            shown = [place for place in places if place in self._shown]
            listed = "".join(self._example(place, room, folder) for place in shown)
            more = f", {len(shown):,} of them shown" if len(shown) < len(places) else ""
            number = numbered(len(places), "example")
            heading = f"<h3>{escape(label)} <small>{number}{more}</small></h3>"
            groups += [f"{heading}<ul>{listed}</ul>"] if shown else []
        wide = "" if self._examples.modality is Modality.IMAGE else " wide"
        return (
            f'<details class="panel examples{wide}" id="examples"><summary>Your examples'
            f" ({len(self._examples.labels):,})</summary>{''.join(groups)}</details>"
        )

    def near_as_html(self, answer: Answer) -> str:
        """Return links to the examples that support an answer, or to its nearest examples."""
        shares = {each.place: each.share for each in answer.because}
        links = [
            f'<li><a href="#example-{place}"><b>{escape(self._examples.labels[place])}</b>'
            f" {escape(self._name(place))}</a>{_share(shares.get(place))}</li>"
            for place in shares or answer.nearest
            if place in self._shown
        ]
        title = "Supporting examples, with their shares:" if shares else ""
        listed = f'<ul class="near">{"".join(links)}</ul>'
        rows = f'<div class="facts">{title or "Nearest examples:"}{listed}</div>' if links else ""
        named = [f"{escape(name)}{_share(share)}" for name, share in answer.because_columns]
        columns = f'<p class="facts">Supporting columns: {", ".join(named)}</p>' if named else ""
        return rows + columns

    def _name(self, place: int) -> str:
        item = item_at(self._examples, place)
        name = self._examples.names[place]
        return excerpt(item, MAX_NEAR_EXCERPT) if isinstance(item, str) else name

    def _example(self, place: int, room: Room, folder: Path | None) -> str:
        item = item_at(self._examples, place)
        shown = item_as_html(item, self._examples.modality, room, EXAMPLE_SIDE)
        name = "" if isinstance(item, str) else link(item, self._examples.names[place], folder)
        named = f'<p class="name">{name}</p>' if name else ""
        return f'<li id="example-{place}">{shown}{named}</li>'


def _share(share: float | None) -> str:
    return "" if share is None else f" {100 * share:.0f} %"


def _image(item: object, side: int) -> tuple[str, bytes] | None:
    try:
        return "image/jpeg", jpeg_preview(item, side, QUALITY)
    except (UserError, OSError):
        return None


def _sound(item: object) -> tuple[str, bytes] | None:
    if not isinstance(item, Path) or item.suffix.lower() not in SOUNDS:
        return None
    try:
        content = item.read_bytes() if item.stat().st_size <= MAX_SOUND_BYTES else None
    except OSError:
        return None
    return None if content is None else (SOUNDS[item.suffix.lower()], content)


def _cells(row: Mapping[Any, Any]) -> str:
    cells = [
        f"<dt>{escape(str(name))}</dt><dd>{escape(cell_preview(value, missing='-'))}</dd>"
        for name, value in list(row.items())[:MAX_CELLS]
    ]
    more = len(row) - MAX_CELLS
    note = f"<dt>…</dt><dd>and {more} more</dd>" if more > 0 else ""
    return f'<dl class="cells">{"".join(cells)}{note}</dl>'
