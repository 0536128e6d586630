"""How one item looks on a page: a small image, a text, a player, the cells of a row."""

import io
import math
import os
import threading
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from unitail.encoders.encoder import Modality
from unitail.encoders.images import read_image
from unitail.errors import UserError
from unitail.inputs.items import Items
from unitail.inputs.recognise import modality_of

SIDE = 360
"""The longer side of a small image; cards show it at about two thirds of that."""
QUALITY = 72
MAX_CHARACTERS = 1200
MAX_CELLS = 12
MAX_SOUND_BYTES = 2 * 1024**2
"""Larger sounds are linked."""
SOUNDS = {
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".oga": "audio/ogg",
    ".opus": "audio/ogg",
}
"""What browsers play."""


@dataclass
class Room:
    """The bytes of media that a page may still take; threads may share it."""

    left: int
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, size: int) -> bool:
        """Say whether there is room for this many bytes, and take it."""
        with self.lock:
            fits = size <= self.left
            self.left -= size if fits else 0
        return fits


def item_at(items: Items, place: int) -> object:
    """Return one of the items; a row of a table as a dict."""
    if items.modality is Modality.TABLE:
        return items.items.iloc[place].to_dict()  # type: ignore[attr-defined]
    return items.items[place]


def item_as_html(item: object, modality: Modality, room: Room) -> str:
    """Show an item; what cannot be shown inside the page is said to be linked below."""
    if modality is Modality.TABLE and isinstance(item, Mapping):
        files = {name: cell for name, cell in item.items() if isinstance(cell, Path)}
        kinds = ((cell, modality_of(cell)) for cell in files.values())
        inside = [item_as_html(cell, kind, room) for cell, kind in kinds if kind is not None]
        return "".join(inside) + _cells({**item, **{name: files[name].name for name in files}})
    if modality is Modality.TEXT:
        return _text(item)
    media = _image(item) if modality is Modality.IMAGE else _sound(item)
    if media is None:
        return '<p class="none">Not shown here.</p>'
    kind, content = media
    if not room.take(len(content)):
        return '<p class="none">Not shown: this page is large already.</p>'
    source = f"data:{kind};base64,{b64encode(content).decode()}"
    if modality is Modality.IMAGE:
        return (
            f'<div class="image"><img src="{source}" alt="" loading="lazy" decoding="async"></div>'
        )
    return f'<div class="sound"><audio controls preload="none" src="{source}"></audio></div>'


def link(item: object, name: str, folder: Path) -> str:
    """Write an item's name, with a link from a page in `folder` to its file if it has one."""
    if not isinstance(item, Path):
        return escape(name)
    try:
        target = quote(os.fsencode(os.path.relpath(item, folder).replace(os.sep, "/")))
    except ValueError:  # on another drive
        return escape(name)
    return f'<a href="{target}">{escape(name)}</a>'


def _image(item: object) -> tuple[str, bytes] | None:
    try:
        image = read_image(item)
    except (UserError, OSError):
        return None
    image.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=QUALITY)
    return "image/jpeg", file.getvalue()


def _sound(item: object) -> tuple[str, bytes] | None:
    if not isinstance(item, Path) or item.suffix.lower() not in SOUNDS:
        return None
    try:
        content = item.read_bytes() if item.stat().st_size <= MAX_SOUND_BYTES else None
    except OSError:
        return None
    return None if content is None else (SOUNDS[item.suffix.lower()], content)


def _text(item: object) -> str:
    text = _content(item)
    cut = text[:MAX_CHARACTERS].rstrip() + " …" if len(text) > MAX_CHARACTERS else text
    return f'<p class="text">{escape(cut)}</p>'


def _content(item: object) -> str:
    if not isinstance(item, Path):
        return str(item)
    try:
        with item.open("rb") as file:
            return file.read(8 * MAX_CHARACTERS).decode("utf-8-sig", "replace").strip()
    except OSError:
        return ""


def _cells(row: Mapping[Any, Any]) -> str:
    cells = [
        f"<dt>{escape(str(name))}</dt><dd>{escape(_cell(value))}</dd>"
        for name, value in list(row.items())[:MAX_CELLS]
    ]
    more = len(row) - MAX_CELLS
    rest = f"<dt>…</dt><dd>and {more} more</dd>" if more > 0 else ""
    return f'<dl class="cells">{"".join(cells)}{rest}</dl>'


def _cell(value: object) -> str:
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "-" if missing else f"{value:g}" if isinstance(value, float) else str(value)
