"""Item contents for the page: previews of images, texts, the cells of rows, sound files."""

import mimetypes
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from unitail.encoders.encoder import Modality
from unitail.errors import Unreadable, UserError
from unitail.studio.catalogue import Catalogue
from unitail.wording import shown
from unitail.workflows.html_report.previews import cell_preview, jpeg_preview, text_preview

SIDES = {"small": 360, "large": 1600}
"""Length of an image's longer side, in pixels."""
QUALITY = {"small": 78, "large": 88}
MAX_CHARACTERS = {"small": 600, "large": 20_000}
MAX_CELLS = {"small": 12, "large": 1000}
CACHE_BYTES = 96 * 2**20
"""Memory for cached small images."""


class Media:
    """Provides previews of the items in a catalogue; threads may share it."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._lock = threading.Lock()
        self._images: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._bytes = 0

    def image(self, place: int, size: str) -> bytes:
        """Return an image as JPEG, rotated as its metadata say."""
        path = self._file(place)
        try:
            key = (place, path.stat().st_mtime_ns)
            if size == "small" and (cached := self._images.get(key)) is not None:
                return cached
            preview = jpeg_preview(path, SIDES[size], QUALITY[size])
        except OSError as error:
            raise _unreadable(path, error) from error
        if size == "small":
            self._keep(key, preview)
        return preview

    def sound(self, place: int) -> tuple[Path, str]:
        """Return a sound's file and its MIME type."""
        path = self._file(place)
        if not path.is_file():
            raise _unreadable(path, FileNotFoundError("no such file"))
        return path, mimetypes.guess_type(path.name)[0] or "application/octet-stream"

    def content(self, place: int, size: str = "small") -> Any:  # noqa: ANN401 - JSON
        """Return a text, or the (name, value) pairs of a row; None for images and sounds."""
        if self._catalogue.modality is Modality.TABLE:
            row = self._catalogue.item(place)
            assert isinstance(row, dict)
            cells = [[str(name), cell_preview(cell, missing="")] for name, cell in row.items()]
            return cells[: MAX_CELLS[size]]
        if self._catalogue.modality is Modality.TEXT:
            return text_preview(self._catalogue.item(place), MAX_CHARACTERS[size])
        return None

    def search(self, words: str) -> list[int]:
        """Return the places of items whose name or content contains all the words."""
        folded = words.casefold().split()
        matches = []
        for place, name in enumerate(self._catalogue.items.names):
            text = f"{name}\n{self._searchable_text(place)}".casefold()
            if all(word in text for word in folded):
                matches.append(place)
        return matches

    def _searchable_text(self, place: int) -> str:
        content = self.content(place, "large")
        if isinstance(content, list):
            return "\n".join(cell for _, cell in content)
        return content or ""

    def _file(self, place: int) -> Path:
        path = self._catalogue.file(place)
        if path is None:
            raise Unreadable("the item is not a file", got="a text or row", allowed="a file")
        return path

    def _keep(self, key: tuple[int, int], image: bytes) -> None:
        with self._lock:
            if key not in self._images:
                self._images[key] = image
                self._bytes += len(image)
            while self._bytes > CACHE_BYTES:
                self._bytes -= len(self._images.popitem(last=False)[1])


def _unreadable(path: Path, error: OSError) -> UserError:
    reason = error.strerror or str(error)
    return Unreadable(f"{shown(path)} cannot be shown", got=reason, allowed="a readable file")
