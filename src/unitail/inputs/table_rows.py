"""Turn the rows of a table into items: paths, texts or features."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput, optional
from unitail.inputs.cells import (
    Formats,
    as_features,
    as_features_before,
    labels_of,
    only,
    orders_of_dates,
    texts_of,
    written_styles,
)
from unitail.inputs.columns import (
    SKIP,
    Layout,
    choose_content,
    item_cells,
    lay_out,
    no_content_column,
)
from unitail.inputs.input_encoder import ItemColumn
from unitail.inputs.items import Items, LabelledItems, ReadOptions, Record
from unitail.inputs.table_files import guesses_of, read_table, without_row_numbers
from unitail.missing_columns import no_label_column
from unitail.wording import exact, excerpt, numbered, shown, some

EMPTY_ROW = "empty row"
"""The reason why a row of a table without any cell is not an item."""
MIN_ODD = 10
"""Fewest rows for which mostly different labels look wrong."""


def read_labelled_rows(
    path: Path, options: ReadOptions, like: LabelledItems | None = None
) -> LabelledItems:
    """Read a table with a column of labels; rows without a label are skipped and noted."""
    label_column = options.label_column
    frame = without_row_numbers(read_table(path))
    if label_column not in frame:
        raise no_label_column(shown(path), list(frame), label_column)
    labels = _labels(frame, label_column)
    labelled = [place for place, label in enumerate(labels) if label]
    if not labelled:
        raise InvalidInput(
            f"no row of {shown(path)} has a label",
            got="empty cells",
            allowed="labels",
            remedy=f"Write the class of some rows into the column {label_column!r}.",
        )
    if like is not None and options.content_column not in frame:
        options = replace(options, content_column=None)  # this table may use another column
    rows = frame.drop(columns=label_column).iloc[labelled]
    items, kept = _items_of(rows, path, options, like)
    missing = len(labels) - len(labelled)
    notes = [f"{numbered(missing, 'row')} without a label"] if missing else []
    examples = items.with_labels(labels[labelled[place]] for place in kept)
    odd = _note_odd_labels(examples, label_column)
    return replace(examples, guesses=(*examples.guesses, *odd), unlabelled=tuple(notes))


def items_of_rows(
    table: Any,  # noqa: ANN401 - a DataFrame
    path: Path,
    options: ReadOptions,
    like: LabelledItems | None,
    *,
    unlabelled_only: bool = False,
) -> Items:
    """Turn the rows of a table that was read from `path` into items, without its labels.

    Features have the same kinds as in `like`. With `unlabelled_only`, labelled rows become records
    but not items.
    """
    frame, label_column = without_row_numbers(table), options.label_column
    labels = _labels(frame, label_column)
    frame = frame.drop(columns=[label_column] if label_column in frame else [])
    queries = [place for place, label in enumerate(labels) if not (label and unlabelled_only)]
    if not queries:
        raise InvalidInput(
            f"every row of {shown(path)} has a label",
            got="nothing to answer",
            allowed="rows without a label, or another table to answer",
            remedy="Leave labels empty, or name what to answer after the examples.",
        )
    if options.content_column not in frame and len(frame.columns) == 1:
        options = replace(options, content_column=None)  # it has another name in this table
    frame = frame.iloc[queries]
    items, kept = _items_of(frame, path, options, like)
    if items.modality is Modality.TABLE:
        items, kept = _without_empty_rows(items, frame)
    places = {queries[place]: number for number, place in enumerate(kept)}
    return replace(items, records=_records(table, labels, places, set(queries), items, path))


def _without_empty_rows(items: Items, frame: Any) -> tuple[Items, list[int]]:  # noqa: ANN401
    """Leave out rows without any cell, as spreadsheets write them; return the others' indices."""
    missing = np.flatnonzero(items.items.isna().all(axis=1))  # type: ignore[attr-defined]
    empty = {place for place in missing.tolist() if not any(texts_of(frame.iloc[place]))}
    kept = [place for place in range(len(items)) if place not in empty]
    if not empty:
        return items, kept
    filled = replace(
        items,
        items=items.items.iloc[kept],  # type: ignore[attr-defined]
        names=tuple(items.names[place] for place in kept),
        ignored=(*items.ignored, numbered(len(empty), EMPTY_ROW)),
    )
    return filled, kept


def _note_odd_labels(examples: LabelledItems, column: str) -> list[str]:
    """Return a note if most labels are different: another column may hold the classes."""
    rows, classes = len(examples), len(examples.classes)
    if rows < MIN_ODD or classes <= rows / 2:
        return []
    return [
        f"{column!r} holds the labels, though {rows:,} rows have {classes:,} different ones;"
        " to use another column: --label-column NAME"
    ]


def _labels(frame: Any, column: str) -> list[str]:  # noqa: ANN401 - a DataFrame
    """Return the label of each row; empty if it has none."""
    return labels_of(frame[column]) if column in frame else [""] * len(frame)


def _records(
    table: Any,  # noqa: ANN401 - a DataFrame
    labels: list[str],
    places: Mapping[int, int],
    queries: Collection[int],
    items: Items,
    path: Path,
) -> tuple[Record, ...]:
    """Return a record for every row of a table, with the index of its item or why it has none."""
    names = list(table.columns)
    is_table = items.modality is Modality.TABLE
    reason = EMPTY_ROW if is_table else f"no {items.modality} in {items.content_column!r}"
    return tuple(
        Record(
            cells=dict(zip(names, cells, strict=True)),
            item=places.get(number),
            row=number + 1,
            source=exact(path),
            label=labels[number],
            reason=reason if number in queries and number not in places else "",
        )
        for number, cells in enumerate(table.itertuples(index=False, name=None))
    )


def _items_of(
    frame: Any,  # noqa: ANN401 - a DataFrame
    path: Path,
    options: ReadOptions,
    like: LabelledItems | None,
) -> tuple[Items, list[int]]:
    """Turn the rows of a table into items; return also the indices of the rows that are items.

    With `like`, the columns have the same roles as in these examples.
    """
    if like is not None and like.layout is not None:
        if options.content_column is not None:
            raise no_content_column(options.content_column)
        items = _rows_like(frame, path, like.layout, like)
        return items, list(range(len(items)))
    column, modality, chosen = options.content_column, options.modality, options.columns
    one_column = options.one_column or (modality is not None and not chosen)
    if column is not None or (one_column and modality is not Modality.TABLE):
        return _items_in_column(frame, path, column, modality)
    skipped = [name for name in frame if chosen.get(name) == SKIP]
    features, odd = _converted(frame, skipped, options.formats)
    layout = _lay_out(features, modality, chosen)
    if len(layout.contents) == 1 and not layout.features and not chosen:
        return _items_in_column(frame, path, next(iter(layout.contents)), None)
    items = _rows_as_items(frame, path, layout, only(layout.features, features))
    guessed = [name for name in layout.contents if name not in chosen]
    kinds = some((f"{name!r} holds {_plural(layout.contents[name])}" for name in guessed), 8)
    notes = [f"{kinds}; to change this: --column NAME=KIND"] if guessed else []
    guesses = (*items.guesses, *odd, *notes)
    return replace(items, guesses=guesses), list(range(len(items)))


def _rows_like(frame: Any, path: Path, layout: Layout, like: LabelledItems) -> Items:  # noqa: ANN401
    """Read the columns of a table that the examples have, and read them as they were read."""
    examples = like.items[list(layout.features)]  # type: ignore[call-overload]
    features, notes = as_features(frame[[x for x in layout.features if x in frame]], examples)
    items = _rows_as_items(frame, path, layout, features)
    other = [name for name in frame if name not in items.items and name not in layout.unused]
    return replace(items, ignored=(*notes, *items.ignored, *_note_unused(other)))


def _converted(frame: Any, skipped: list[str], formats: Formats) -> tuple[Any, list[str]]:  # noqa: ANN401
    """Convert the cells of all columns but the skipped: they say nothing about how others read."""
    features, notes = as_features_before(frame.drop(columns=skipped), formats)
    for name in skipped:
        features[name] = frame[name].to_numpy()
    return features, notes


def _lay_out(features: Any, modality: Modality | None, chosen: Mapping[str, str]) -> Layout:  # noqa: ANN401
    """Assign roles to the columns; a single column of names, and nothing else, holds texts."""
    default = dict.fromkeys(features, str(Modality.TABLE)) if modality is Modality.TABLE else {}
    layout = lay_out(features, {**default, **chosen})
    is_text = len(features.columns) == 1 and str(features.dtypes.iloc[0]) == "object"
    if is_text and not (default or chosen or layout.contents or layout.unused):
        return Layout(dict.fromkeys(features, ItemColumn(Modality.TEXT)), (), {})
    return layout


def _plural(column: ItemColumn) -> str:
    return "sounds" if column.modality is Modality.AUDIO else f"{column.modality}s"


def _rows_as_items(frame: Any, path: Path, layout: Layout, features: Any) -> Items:  # noqa: ANN401
    """Return the rows as items: some cells are items themselves, the others are `features`."""
    pandas = optional("pandas", extra="encoders")
    cells, notes = features.copy(), list[str]()
    for name in [name for name in layout.contents if name in frame]:
        column, missing = item_cells(frame[name], layout.contents[name], path.parent, name)
        cells[name] = pandas.Series(column, dtype=object)
        notes += [f"{numbered(missing, 'empty cell')} of {name!r}"] if missing else []
    return Items(
        items=cells[[name for name in frame if name in cells]],
        names=tuple(f"row {place + 1}" for place in frame.index),
        modality=Modality.TABLE,
        ignored=tuple(notes),
        guesses=(*guesses_of(frame), *_note_formats(features)),
        layout=layout,
    )


def _items_in_column(
    frame: Any,  # noqa: ANN401 - a DataFrame
    path: Path,
    column: str | None,
    modality: Modality | None,
) -> tuple[Items, list[int]]:
    """Read the texts or paths of one column; rows without one are skipped."""
    column, content = choose_content(frame, path.parent, column=column, modality=modality)
    cells, skipped = item_cells(frame[column], content, path.parent, column)
    kept = [place for place, cell in enumerate(cells) if cell is not None]
    chosen = tuple(cells[place] for place in kept)
    notes = [f"{numbered(skipped, 'row')} without {content.modality} content"] if skipped else []
    texts = texts_of(frame[column])
    items = Items(
        items=chosen,
        names=tuple((shown if content.are_files else excerpt)(texts[place]) for place in kept),
        modality=content.modality,
        ignored=(*notes, *_note_unused([name for name in frame if name != column])),
        guesses=guesses_of(frame),
        content_column=column,
    )
    return items, kept


def _note_formats(features: Any) -> list[str]:  # noqa: ANN401 - a DataFrame
    """Return notes on the formats in which numbers and dates were read, if not plain."""
    styles, orders = written_styles(features), orders_of_dates(features)
    commas = some(repr(name) for name, style in styles.items() if style.has_commas)
    thousands = some(repr(name) for name, style in styles.items() if style.thousands)
    beside = some(f"{name!r} ({style.beside})" for name, style in styles.items() if style.beside)
    return [
        *([f"the commas in the numbers of {commas} are decimal points"] if commas else []),
        *([f"the commas in the numbers of {thousands} separate thousands"] if thousands else []),
        *([f"symbols and units next to numbers are ignored: {beside}"] if beside else []),
        *(
            f"the dates of {name!r} have the {'day' if day_first else 'month'} first"
            for name, day_first in orders.items()
            if day_first is not None
        ),
    ]


def _note_unused(columns: list[str]) -> list[str]:
    if not columns:
        return []
    return [f"{numbered(len(columns), 'column')} ({some(columns, 5)})"]
