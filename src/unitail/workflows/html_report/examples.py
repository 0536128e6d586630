"""The labelled examples on a page: what the answers rest on, and where a wrong label shows."""

from collections import defaultdict
from html import escape
from pathlib import Path

from unitail.encoders.encoder import Modality
from unitail.inputs.items import LabelledItems
from unitail.wording import numbered
from unitail.workflows.html_report.items import Room, item_as_html, item_at, link

MAX_EXAMPLES = 240
"""Shown in all; every class has as many of its first ones as fit."""


def examples_as_html(examples: LabelledItems, room: Room, folder: Path) -> str:
    """Show the first examples of each class; nothing if a saved classifier has none to show."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, label in enumerate(examples.labels[: len(examples.items)]):
        places[label].append(place)
    if not places:
        return ""
    most = max(MAX_EXAMPLES // len(places), 1)
    groups = []
    for label in sorted(places)[:MAX_EXAMPLES]:
        shown = places[label][:most]
        listed = "".join(_example(examples, place, room, folder) for place in shown)
        more = f", the first {len(shown)} of them" if len(shown) < len(places[label]) else ""
        number = numbered(len(places[label]), "example")
        groups.append(f"<h3>{escape(label)} <small>{number}{more}</small></h3><ul>{listed}</ul>")
    wide = "" if examples.modality is Modality.IMAGE else " wide"
    return (
        f'<details class="panel examples{wide}"><summary>Your examples'
        f" ({len(examples.labels):,})</summary>{''.join(groups)}</details>"
    )


def _example(examples: LabelledItems, place: int, room: Room, folder: Path) -> str:
    item = item_at(examples, place)
    shown = item_as_html(item, examples.modality, room)
    name = "" if isinstance(item, str) else link(item, examples.names[place], folder)
    return f'<li>{shown}<p class="name">{name}</p></li>' if name else f"<li>{shown}</li>"
