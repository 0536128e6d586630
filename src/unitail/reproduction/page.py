"""Render the report as one self-contained HTML file, with styles and plots inlined."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path

from unitail.reproduction.grid import Cell, CellVerdict, Grid
from unitail.reproduction.report import Report, Section

STYLE = Path(__file__).parent / "style.css"
LEGEND = """\
<p class="legend">Accuracy in %, in brackets the half width of its 95 % interval over episodes. The
second line of a cell is the paper's number. <span class="higher">Higher</span> and
<span class="lower">lower</span> than the paper's: by more than both intervals together;
<span class="alike">alike</span>: not told apart. <b>Bold</b>: the highest of ours in its column and
shots. A dash: not measured. * Some classes may mean the same as some that were trained on.</p>"""
NOTHING = "\N{EN DASH}"


def html_page(report: Report) -> str:
    """Return the page; all text is escaped."""
    style = STYLE.read_text(encoding="utf-8")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'"
    body = [
        f"<h1>{escape(report.title)}</h1>",
        LEGEND,
        *(f'<p class="note">{escape(note)}</p>' for note in report.notes),
        _contents(report),
        *(_section(each, number) for number, each in enumerate(report.sections)),
        _ending(report),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(report.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def _contents(report: Report) -> str:
    lines = [
        f'<li><a href="#s{number}">{escape(each.title)}</a>'
        f' <span class="status">{escape(each.status)}</span></li>'
        for number, each in enumerate(report.sections)
    ]
    return f"<nav><ol>{''.join(lines)}</ol></nav>"


def _section(section: Section, number: int) -> str:
    parts = [
        f'<section id="s{number}">',
        f"<h2>{escape(section.title)}</h2>",
        f'<p class="status">{escape(section.status)}</p>',
    ]
    if section.notes:
        notes = "".join(f"<li>{escape(note)}</li>" for note in section.notes)
        parts.append(f"<ul>{notes}</ul>")
    parts += [_grid(grid) for grid in section.grids]
    parts += [
        f"<h3>{escape(each.title)}</h3>{_paragraph(each.about)}"
        f"{_table(each.header, each.rows, 'plain')}"
        for each in section.tables
    ]
    parts += [
        f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,'
        f'{b64encode(png).decode()}"><figcaption>{escape(caption)}</figcaption></figure>'
        for caption, png in (section.pictures or {}).items()
    ]
    if section.versus:
        parts.append(_versus(*section.versus))
    if section.todo:
        lines = escape("\n".join(section.todo))
        parts.append(
            f"<details{' open' if not section.grids else ''}><summary>To get the rest</summary>"
            f"<pre>{lines}</pre></details>"
        )
    return "\n".join([*parts, "</section>"])


def _grid(grid: Grid) -> str:
    head = "".join(f'<th scope="col">{_heading(name)}</th>' for name in grid.columns)
    has_shots = any(row.shots for row in grid.rows)
    shots = '<th scope="col">shots</th>' if has_shots else ""
    lines, previous = [], ""
    for row in grid.rows:
        first = (
            f"<td>{escape(row.shots if row.shots != previous else '')}</td>" if has_shots else ""
        )
        kind = ' class="new"' if row.shots != previous else ""
        previous = row.shots
        cells = "".join(map(_cell, row.cells))
        lines.append(f'<tr{kind}>{first}<th scope="row">{escape(row.learner)}</th>{cells}</tr>')
    kind = ' class="shots"' if has_shots else ""
    return (
        f"<h3>{escape(grid.title)}</h3>{_paragraph(grid.caption)}\n"
        f'<div class="wide" tabindex="0"><table{kind}><thead><tr>'
        f'{shots}<th scope="col">method</th>{head}'
        f"</tr></thead>\n<tbody>{chr(10).join(lines)}</tbody></table></div>"
    )


def _heading(name: str) -> str:
    """Escape a heading; allow line breaks after "/" and "_", but not inside "5-shot"."""
    unbroken = re.sub(r"-(shot|way)", "\N{NON-BREAKING HYPHEN}\\1", escape(name))
    return re.sub(r"([/_])", r"\1<wbr>", unbroken)


def _cell(cell: Cell) -> str:
    ours = escape(cell.ours) or NOTHING
    kind = f' class="{cell.verdict}"' if cell.verdict is not CellVerdict.NONE else ""
    text = f"<b>{ours}</b>" if cell.best else ours
    below = f"<small>{escape(cell.paper)}</small>" if cell.paper else ""
    return f"<td{kind}>{text}{below}</td>"


def _versus(anchor: str, header: list[str], rows: list[list[str]]) -> str:
    return (
        f"<h3>Against {escape(anchor)}</h3><p>Points of accuracy on the same episodes: ± half width"
        " of the 95 % interval over episodes / over data sets, bold where that over episodes"
        " leaves out 0; then data sets won, tied and lost."
        f"</p>{_table(header, rows, 'versus')}"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], kind: str) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    lines = [
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{_bold(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    ]
    return (
        f'<div class="wide" tabindex="0"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>" if text else ""


def _bold(cell: str) -> str:
    """Escape a cell and render **...** as bold."""
    pieces = escape(cell).split("**")
    return "".join(f"<b>{each}</b>" if place % 2 else each for place, each in enumerate(pieces))


def _ending(report: Report) -> str:
    commands = escape("\n".join(report.commands))
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>'
        for name, text in report.versions
    )
    return (
        f"<section><h2>Commands and versions</h2><pre>{commands}</pre>"
        f'<div class="wide" tabindex="0"><table class="facts"><tbody>{rows}</tbody></table></div>'
        "</section>"
    )
