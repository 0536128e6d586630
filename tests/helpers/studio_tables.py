"""Tables whose rows are labelled in a studio, and which row has which label."""

from collections.abc import Sequence
from pathlib import Path

from unitail.studio.project import Project, open_project
from unitail.studio.settings import ProjectSettings

Cells = Sequence[Sequence[object]]
ROWS: Cells = [[n * 1.5, n % 3, f"kind {n % 2}"] for n in range(8)]


def write(table: Path, names: str, rows: Cells) -> None:
    lines = (";".join(map(str, row)) for row in rows)
    table.write_text("\n".join([names.replace(" ", ";"), *lines, ""]))


def with_column(rows: Cells, cells: Sequence[object]) -> Cells:
    return [[*row, cell] for row, cell in zip(rows, cells, strict=True)]


def reopened(source: Path, **given: object) -> Project:
    opened = open_project(source, None, ProjectSettings(**given))  # type: ignore[arg-type]
    opened.store.close()
    return opened


def label_rows(source: Path, count: int = 2, **given: object) -> None:
    """Label the first rows, each as a class of its own that is named after its row."""
    opened = open_project(source, None, ProjectSettings(**given))  # type: ignore[arg-type]
    names = {key: f"class {row}" for row, key in enumerate(opened.catalogue.keys[:count])}
    opened.store.label_by_name(names)
    opened.store.close()


def labels(opened: Project) -> dict[str, str]:
    """Return the class of each labelled row that is in view, by the row's first cell."""
    again = open_project(opened.catalogue.source, None, ProjectSettings())
    snapshot = again.store.since()
    again.store.close()
    classes = {row.id: row.name for row in snapshot.classes}
    catalogue = opened.catalogue
    first = {each.item: str(next(iter(each.cells.values()))) for each in catalogue.items.records}
    return {
        first[catalogue.places[row.item]]: classes[row.class_id]
        for row in snapshot.labels
        if row.item in catalogue.places and row.class_id is not None
    }
