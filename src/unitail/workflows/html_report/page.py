"""Write answers as one HTML file that shows the items, the least certain answers first.

The file is self-contained: images and sounds are embedded as far as there is room, and a content
security policy keeps browsers from using the network. All text from users is escaped.
"""

import hashlib
import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import Any

import unitail
from unitail.answer_defaults import DOUBTFUL, NOVEL
from unitail.encoders.encoder import Modality
from unitail.files import disk_errors, followed, write_text
from unitail.inputs.items import Items, LabelledItems
from unitail.progress import OnProgress
from unitail.wording import numbered, some
from unitail.workflows.answers import Answer, Answers, State
from unitail.workflows.html_report.previews import ExamplesPanel, Room, item_as_html, item_at, link

FOLDER = Path(__file__).parent
PAGES = (".html", ".htm")
"""Suffixes of a report's file."""
MAX_CARDS = 2000
"""Largest number of answers on the page: the least certain ones."""
MAX_MEMBERS = 8
"""Largest number of classes listed for a prediction set."""
MAX_LINES = 200
"""Largest number of unreadable files listed."""
MAX_RECORD = 20_000
"""Largest row, in characters as JSON, that can be corrected on the page."""
MAX_MEDIA_BYTES = 32 * 1024**2
"""Limit on the size of embedded images and sounds, before base64 encoding."""
THREADS = 8
NOUNS = {
    Modality.IMAGE: "image",
    Modality.AUDIO: "sound",
    Modality.TEXT: "text",
    Modality.TABLE: "row",
}


def write_html_report(
    result: Answers,
    queries: Items,
    path: Path,
    *,
    title: str = "Answers",
    examples: LabelledItems | None = None,
    label_column: str = "label",
    has_links: bool = True,
    on_progress: OnProgress | None = None,
) -> None:
    """Write the page atomically.

    `label_column` is the name of the column of labels in downloaded corrections. With `has_links`
    the names of files are links to them from where the page is. `on_progress` counts the cards.
    """
    shown = result.by_uncertainty()[:MAX_CARDS]
    room = Room(MAX_MEDIA_BYTES)
    panel = ExamplesPanel(examples, shown) if examples else None
    near = [panel.near_as_html(answer) if panel else "" for answer in shown]
    folder = path.parent if has_links else None
    cards = _cards(shown, near, len(result.examples), queries, folder, room, on_progress)
    style, script = (_file(name) for name in ("style.css", "script.js"))
    text = _filled(
        _file("page.html"),
        {
            "title": escape(title),
            "style": style,
            "style_hash": _hash(style),
            "script": script,
            "script_hash": _hash(script),
            "summary": _summary(result),
            "tiles": _tiles(result),
            "coverage": _percent(result.coverage),
            "strange": _percent(NOVEL),
            "sure": _percent(DOUBTFUL),
            "num_classes": str(len(result.examples)),
            "classes": _classes(result),
            "examples": panel.as_html(room, folder) if panel else "",
            "notes": _notes(result),
            "labels": "".join(f'<option value="{escape(name)}">' for name in result.examples),
            "label_column": escape(label_column),
            "options": _options(shown),
            "cards": "\n".join(cards),
            "version": escape(unitail.__version__),
        },
    )
    with disk_errors(path):
        write_text(followed(path), text)


def _cards(
    answers: Sequence[Answer],
    near: Sequence[str],
    num_classes: int,
    queries: Items,
    folder: Path | None,
    room: Room,
    on_progress: OnProgress | None,
) -> list[str]:
    """Return the HTML of all cards; images are decoded in threads."""
    records = {record.item: record.cells for record in queries.records}

    def draw(answer: Answer, near: str) -> str:
        item = item_at(queries, answer.place)
        shown = item_as_html(item, queries.modality, room)
        field = near + _field(answer, records.get(answer.place))
        return _card(answer, shown, _name(answer, item, folder), field, num_classes)

    cards = []
    with ThreadPoolExecutor(THREADS) as pool:
        for number, card in enumerate(pool.map(draw, answers, near), start=1):
            cards.append(card)
            if on_progress is not None:
                on_progress(number, len(answers))
    return cards


def _field(answer: Answer, cells: Mapping[str, Any] | None) -> str:
    """Return the input field for a correction, which holds the item's row; "" if it has none."""
    record = "" if cells is None else json.dumps(dict(cells), ensure_ascii=False, default=str)
    if not 0 < len(record) <= MAX_RECORD:
        return ""
    return (
        '<label class="correct" hidden><input list="labels" placeholder="correct class"'
        f' aria-label="Correct class of {escape(answer.name)}" autocomplete="off"'
        f' data-record="{escape(record)}"></label>'
    )


def _name(answer: Answer, item: object, folder: Path | None) -> str:
    """Return the name of an item; only a number for a text, which is shown anyway."""
    return f"text {answer.place + 1}" if isinstance(item, str) else link(item, answer.name, folder)


def _card(answer: Answer, item: str, name: str, field: str, num_classes: int) -> str:
    bars = "".join(
        f"<li><span>{escape(label)}</span><b>{_percent(p)}</b>"
        f'<progress max="1" value="{p:.4f}"></progress></li>'
        for label, p in answer.top
    )
    mark = ' <span class="mark">looks new</span>' if answer.state is State.NOVEL else ""
    return (
        f'<article class="card" data-p="{answer.probability:.6f}"'
        f' data-novelty="{answer.novelty:.6f}" data-place="{answer.place}"'
        f' data-label="{escape(answer.label)}" data-state="{answer.state}">{item}'
        f'<div class="answer"><ul class="bars">{bars}</ul>'
        f'<p class="facts">Could be: {_members(answer, num_classes)}</p>'
        f'<p class="facts">Novelty: {_percent(answer.novelty)}{mark}</p>'
        f'{field}<p class="name">{name}</p></div></article>'
    )


def _members(answer: Answer, num_classes: int) -> str:
    if len(answer.members) == num_classes > 2:
        return f"any of the {num_classes} classes"
    return some(map(escape, answer.members), MAX_MEMBERS)


def _summary(result: Answers) -> str:
    noun = NOUNS[result.modality]
    words = [
        f"{numbered(len(result.answers), noun)} answered",
        f"{numbered(sum(result.examples.values()), 'example')} of {len(result.examples)} classes",
        f"encoder {result.encoder}",
    ]
    words += ["answered together (joint)"] if result.joint else []
    return " · ".join(map(escape, words))


def _tiles(result: Answers) -> str:
    """Return the tiles with the numbers of likely, doubtful, novel and unreadable items."""
    states = Counter(answer.state for answer in result.answers)
    unread = len(result.unreadable)
    threshold = _percent(DOUBTFUL)
    tiles = [
        (State.LIKELY, "", f"likely: {threshold} or more"),
        (State.DOUBTFUL, "", f"doubtful: below {threshold}"),
        (State.NOVEL, "warn", "novel: perhaps no class fits"),
    ]
    return "".join(
        f'<li class="{kind if states[state] else ""}"><button type="button" disabled'
        f' aria-pressed="false" data-state="{state}"><b>{states[state]:,}</b>{what}</button></li>'
        for state, kind, what in tiles
    ) + (
        f'<li class="{"warn" if unread else ""}"><span><b>{unread:,}</b>could not be read</span>'
        "</li>"
    )


def _classes(result: Answers) -> str:
    counts = Counter(answer.label for answer in result.answers)
    return "".join(
        f"<tr><td>{escape(label)}</td><td>{number:,}</td><td>{counts[label]:,}</td></tr>"
        for label, number in result.examples.items()
    )


def _options(shown: Sequence[Answer]) -> str:
    counts = Counter(answer.label for answer in shown)
    return "".join(
        f'<option value="{escape(label)}">{escape(label)} ({number})</option>'
        for label, number in sorted(counts.items())
    )


def _notes(result: Answers) -> str:
    """Return notes on the answers, unreadable items, duplicates, and answers not shown."""
    notes = [f'<p class="panel">{escape(note)}.</p>' for note in result.notes]
    if result.unreadable:
        lines = [
            f"<li>{escape(item.name)} ({item.among}): {escape(item.reason)}</li>"
            for item in result.unreadable[:MAX_LINES]
        ]
        notes.append(_panel(f"Could not be read ({len(result.unreadable):,})", lines))
    if result.repeated:
        lines = [f"<li>{escape(name)}</li>" for name in result.repeated[:MAX_LINES]]
        notes.append(_panel(f"Equal to one of the examples ({len(result.repeated):,})", lines))
    if len(result.answers) > MAX_CARDS:
        notes.append(
            f'<p class="panel">The {MAX_CARDS:,} least certain of {len(result.answers):,} answers'
            " are shown; a file of answers (--out) lists all.</p>"
        )
    return "".join(notes)


def _panel(summary: str, lines: Sequence[str]) -> str:
    listed = "".join(lines)
    return f'<details class="panel warn"><summary>{summary}</summary><ul>{listed}</ul></details>'


def _percent(share: float) -> str:
    """Format a share in percent; "> 99 %" and "< 1 %" near the ends, 100 % only if exact."""
    hundred = 100 * share
    if 99 < hundred < 100 or 0 < hundred < 1:
        return "&gt;&nbsp;99&nbsp;%" if hundred > 50 else "&lt;&nbsp;1&nbsp;%"
    return f"{hundred:.0f}&nbsp;%"


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders of a template in one pass: values are not expanded again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], text)


def _file(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _hash(code: str) -> str:
    """Return the hash of a style or script for the content security policy."""
    return f"sha256-{b64encode(hashlib.sha256(code.encode()).digest()).decode()}"
