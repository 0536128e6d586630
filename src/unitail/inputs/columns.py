"""Decide what each column of a table holds: items, numbers, categories, or nothing useful."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unitail.encoders.encoder import Modality
from unitail.encoders.images import is_image
from unitail.encoders.registry import encoder_names
from unitail.encoders.sounds import is_sound
from unitail.encoders.tables import (
    APART,
    MIN_NAMES,
    Kind,
    are_texts,
    holds_texts,
    keys_of,
    kind_of,
    learn,
    numbers_of,
)
from unitail.errors import InvalidInput
from unitail.inputs.cells import has_decimal_commas, is_missing, is_number, texts_of
from unitail.inputs.input_encoder import AUTO, ItemColumn
from unitail.inputs.recognise import common_modality, look_like_files, modality_of
from unitail.missing_columns import list_columns, no_chosen_column, no_item_column

SKIP = "skip"
"""The user's choice for a column that should not be used."""
ROW_NAME = re.compile(r"(?i:(^|[_\W])(id|index|idx|key|nr|no|number)$)|[a-z]ID$")
"""Names of columns whose integers may only identify rows."""
ROW_ID = re.compile(
    r"(?i:(^|[_\W])(id|idx|index|row|row_?names?|row_?(id|no|nr|number))$)|[a-z]ID$|^Unnamed: \d+$"
)
"""Names of columns that certainly only identify rows."""


@dataclass(frozen=True)
class Layout:
    """The role of each column of a table whose rows are the items."""

    contents: Mapping[str, ItemColumn]
    """Columns of items: texts, or paths to files."""
    features: tuple[str, ...]
    """Columns of numbers, dates and categories."""
    unused: Mapping[str, str]
    """Columns that are left out, with the reason."""


def lay_out(frame: Any, chosen: Mapping[str, str]) -> Layout:  # noqa: ANN401 - a DataFrame
    """Assign each column a role: items, features, or unused.

    `chosen` overrides the guess for some columns: the kind of their items, an encoder for them,
    "table" for numbers and categories, or "skip". Columns that only identify rows are left out.
    Without items these are row numbers with a telling name, and `TableEncoder` deals with all other
    useless columns; next to items, everything that looks like an identifier or is uninformative.
    """
    for name, kind in chosen.items():
        if name not in frame:
            raise no_chosen_column(frame.columns, name, kind)
    unused = {name: "as requested" for name in frame if chosen.get(name) == SKIP}
    used = [name for name in frame if name not in unused]
    items = {name: _item_column(name, frame[name], chosen.get(name)) for name in used}
    contents = {name: item for name, item in items.items() if item is not None}
    guessed = [name for name in used if name not in contents and name not in chosen]
    others = [name for name in used if name not in contents]
    texts = [name for name in guessed if _may_be_text(frame[name])]
    if texts and not contents:
        useful = (not _reason_against(name, frame[name]) for name in others if name not in texts)
        contents = {} if any(useful) else dict.fromkeys(texts, ItemColumn(Modality.TEXT))
    if contents:
        guessed = [name for name in guessed if name not in contents]
        reasons = {name: _reason_against(name, frame[name]) for name in guessed}
        unused |= {name: why for name, why in reasons.items() if why}
    else:
        row_ids = [name for name in guessed if _is_row_id(name, frame[name])]
        unused |= dict.fromkeys(row_ids if len(row_ids) < len(used) else (), APART)
    features = [name for name in used if name not in contents and name not in unused]
    return Layout(contents, tuple(features), unused)


def _may_be_text(cells: Any) -> bool:  # noqa: ANN401 - a Series
    return _may_hold_items(cells) and holds_texts(cells)


def _has_sentences(items: Sequence[str]) -> bool:
    """Return whether items are texts, not names or addresses: most have a lower-case word."""
    words = (word for item in items for word in item.split())
    return sum(word[0].isalpha() and not word[0].isupper() for word in words) >= len(items)


def _item_column(name: str, cells: Any, chosen: str | None) -> ItemColumn | None:  # noqa: ANN401
    """Return the items of a column, as chosen or as guessed; None if it holds none."""
    if chosen == Modality.TABLE:
        return None
    possible = cells if _may_hold_items(cells) else ()
    items = [cell for cell in possible if not is_missing(cell) and cell != ""]
    are_files = all(isinstance(item, Path) for item in items) and bool(items)
    if items and all(isinstance(item, str) for item in items):
        are_files = look_like_files(items)
    if chosen is not None:
        modality = Modality(chosen) if chosen in list(Modality) else encoder_names().get(chosen)
        if modality is None:
            modality = common_modality(map(Path, items), repr(name)) if are_files else Modality.TEXT
        return ItemColumn(modality, AUTO if chosen in list(Modality) else chosen, are_files)
    if are_files:
        return ItemColumn(common_modality(map(Path, items), f"column {name!r}"), AUTO, True)
    if items and all(map(is_image, items)):
        return ItemColumn(Modality.IMAGE)
    if items and all(map(is_sound, items)):
        return ItemColumn(Modality.AUDIO)
    is_text = _may_be_text(cells) and _has_sentences(list(map(str, items)))
    return ItemColumn(Modality.TEXT) if is_text else None


def _may_hold_items(cells: Any) -> bool:  # noqa: ANN401 - a Series
    """Return whether cells can be items, by dtype: numbers, dates and booleans cannot."""
    return str(cells.dtype) in ("object", "category") or str(cells.dtype).startswith("str")


def _reason_against(name: str, cells: Any) -> str | None:  # noqa: ANN401 - a Series
    """Return why a column next to items has no information about the classes; None if it may."""
    if _identifies_rows(name, cells):
        return APART
    column = learn(name, cells)
    return column if isinstance(column, str) else None


def choose_content(
    frame: Any,  # noqa: ANN401 - a DataFrame
    folder: Path,
    *,
    column: str | None,
    modality: Modality | None,
) -> tuple[str, ItemColumn]:
    """Return the one column that holds the items, chosen by name or by modality.

    Without either it is the only column of files, or else the only one of texts.
    """
    if column is not None:
        if column not in frame:
            raise no_item_column(frame.columns, column)
        return column, _content_of(frame, column, folder, modality)
    files = [name for name in frame if _hold_files(frame[name])]
    if files:
        column = _only(files, "file names")
        return column, _content_of(frame, column, folder, modality)
    if modality not in (None, Modality.TEXT):
        raise _no_files(list_columns(frame.columns), modality, folder)
    texts = [name for name in frame if _is_text(frame, name)]
    if modality is None and not texts:
        raise InvalidInput(
            "no column holds file names or texts",
            got=list_columns(frame.columns),
            allowed="a column of paths or of texts: others have no frozen encoder",
            remedy="Name the column: --content-column COLUMN.",
        )
    column = _only(texts, "text")
    return column, _content_of(frame, column, folder, modality)


def _content_of(frame: Any, column: str, folder: Path, modality: Modality | None) -> ItemColumn:  # noqa: ANN401
    """Return the kind of items in one column."""
    if modality is Modality.TABLE:
        raise no_content_column(column)
    if not _hold_files(frame[column]):
        if modality not in (None, Modality.TEXT):
            raise _no_files(repr(column), modality, folder)
        return ItemColumn(Modality.TEXT)
    cells = [cell for cell in texts_of(frame[column]) if cell]
    return ItemColumn(
        modality or common_modality(map(Path, cells), f"column {column!r}"), AUTO, True
    )


def item_cells(
    cells: Any,  # noqa: ANN401 - a Series
    column: ItemColumn,
    folder: Path,
    name: str,
) -> tuple[list[Any], int]:
    """Return the texts or paths of a column, None where there is none, and the number of Nones."""
    texts = texts_of(cells)
    if not column.are_files:
        items: list[Any] = [text or None for text in texts]
    else:
        base = _base_folder([text for text in texts if text], folder, name)
        fitting = (text and modality_of(Path(text)) is column.modality for text in texts)
        items = [base / text if fits else None for text, fits in zip(texts, fitting, strict=True)]
    return items, items.count(None)


def _base_folder(cells: Sequence[str], folder: Path, column: str) -> Path:
    """Return the base of relative paths that finds more files: the table's or the current folder.

    The current folder is for tables of answers: their paths stay as the user gave them, wherever
    the table was written.
    """
    # os.path, since pathlib raises an error if a name is too long for the system.
    counts = {base: sum(os.path.isfile(base / cell) for cell in cells) for base in (folder, Path())}
    best = max(counts, key=lambda base: counts[base])
    if cells and not counts[best]:
        raise InvalidInput(
            f"none of the files named in column {column!r} exists",
            got=f"{str(folder / cells[0])!r} and others",
            allowed="paths to files, absolute, or relative to the table or to the current folder",
            remedy="Put the table next to its files, change to the folder that the paths are"
            f" relative to, or leave the column out: --column {column}=skip.",
        )
    return best


def _hold_files(cells: Any) -> bool:  # noqa: ANN401 - a Series
    return look_like_files([cell for cell in texts_of(cells) if cell])


def _is_text(frame: Any, name: str) -> bool:  # noqa: ANN401
    cells = [cell for cell in texts_of(frame[name]) if cell]
    if not cells or all(map(is_number, cells)) or has_decimal_commas(cells):
        return False
    return len(frame.columns) == 1 or are_texts(cells)


def _identifies_rows(name: str, cells: Any) -> bool:  # noqa: ANN401 - a Series
    """Return whether a column only identifies rows: all names differ, or integers increase.

    With few rows this happens by chance, so the column must also be named like an identifier.
    """
    kind, values = kind_of(cells), keys_of(cells)
    differ = len(set(values)) == len(values) > 1
    if not differ or kind not in (Kind.CATEGORY, Kind.NUMBER):
        return False
    named_like_id = bool(ROW_NAME.search(name) or ROW_ID.search(name))
    many = len(values) > MIN_NAMES
    if kind is Kind.CATEGORY:
        return named_like_id or many
    numbers = numbers_of(cells, kind)
    increases = many and bool((np.diff(numbers) > 0).all())
    return (named_like_id or increases) and bool((numbers == np.rint(numbers)).all())


def _is_row_id(name: str, cells: Any) -> bool:  # noqa: ANN401 - a Series
    """Return whether a column certainly holds row numbers, by its name and its cells."""
    numbered = ROW_ID.search(name) is not None and kind_of(cells) is Kind.NUMBER
    return numbered and _identifies_rows(name, cells)


def _only(names: list[str], what: str) -> str:
    if len(names) != 1:
        raise InvalidInput(
            f"it is not clear which column holds the {what}",
            got=", ".join(map(repr, names)) or "no such column",
            allowed="one column",
            remedy="Name it: --content-column COLUMN.",
        )
    return names[0]


def no_content_column(column: str) -> InvalidInput:
    """Return the error for a content column of a table whose rows are the items."""
    return InvalidInput(
        "a table of features has no content column",
        got=f"--content-column {column}, though rows are the items",
        allowed="no --content-column with --modality table, or if the examples are rows",
        remedy="Leave it out.",
    )


def _no_files(got: str, modality: Modality | None, folder: Path) -> InvalidInput:
    return InvalidInput(
        f"no column names {modality} files",
        got=got,
        allowed=f"a column of paths, absolute or relative to {folder}",
        remedy="Name the column: --content-column COLUMN, or its kind: --modality KIND.",
    )
