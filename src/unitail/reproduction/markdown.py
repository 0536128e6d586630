"""Render the report as a Markdown page."""

from collections.abc import Iterator

from unitail.reproduction.grid import Cell, CellVerdict, Grid
from unitail.reproduction.report import Report, Section
from unitail.wording import markdown_table

MARKS = {
    CellVerdict.HIGHER: " ▲",
    CellVerdict.LOWER: " ▼",
    CellVerdict.ALIKE: "",
    CellVerdict.NONE: "",
}
LEGEND = """\
Accuracy in % (half width of its 95 % interval over episodes). Below ours, in italics, the paper's;
▲ ours is higher and ▼ lower beyond doubt: by more than both intervals together. Ours are bold where
they are the highest of their column and shots; - is not measured."""


def markdown_page(report: Report, pictures: dict[str, str]) -> str:
    """Return the page; `pictures` maps captions to file names."""
    parts = [f"# {report.title}", LEGEND, *report.notes]
    for each in report.sections:
        parts += _section(each, pictures)
    commands = "\n".join(report.commands)
    parts += ["## Commands and versions", f"```sh\n{commands}\n```"]
    parts.append(
        markdown_table(["what", "version"], [list(pair) for pair in report.versions], rule="---")
    )
    return "\n\n".join(parts) + "\n"


def _section(section: Section, pictures: dict[str, str]) -> Iterator[str]:
    yield f"## {section.title}"
    yield f"*{section.status}*"
    if section.notes:
        yield "\n".join(f"- {note}" for note in section.notes)
    for grid in section.grids:
        yield from _grid(grid)
    for each in section.tables:
        yield f"### {each.title}"
        if each.about:
            yield each.about
        yield markdown_table(list(each.header), [list(row) for row in each.rows])
    for caption in section.pictures or {}:
        yield f"![{caption}]({pictures[caption]})"
    if section.versus:
        anchor, header, rows = section.versus
        yield (
            f"**Against {anchor}**, points: ± over episodes (bold: without 0) / over data sets,"
            " wins-ties-losses"
        )
        yield markdown_table(header, rows)
    if section.todo:
        lines = "\n".join(section.todo)
        yield f"To get the rest:\n\n```sh\n{lines}\n```"


def _grid(grid: Grid) -> Iterator[str]:
    yield f"### {grid.title}"
    if grid.caption:
        yield grid.caption
    rows = [[row.shots, row.learner, *map(_cell, row.cells)] for row in grid.rows]
    yield markdown_table(["shots", "method", *grid.columns], rows)


def _cell(cell: Cell) -> str:
    ours = f"**{cell.ours}**" if cell.best else cell.ours or "-"
    below = f"<br>*{cell.paper}*" if cell.paper else ""
    return f"{ours}{MARKS[cell.verdict]}{below}"
