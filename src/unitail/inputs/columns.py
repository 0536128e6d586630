"""What the columns of a table hold: items, numbers, categories, or nothing to go by."""

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
from unitail.inputs.cells import has_decimal_commas, is_gap, is_number, texts_of
from unitail.inputs.input_encoder import AUTO, ItemColumn
from unitail.inputs.recognise import common_modality, look_like_files, modality_of
from unitail.missing_columns import list_columns, no_item_column

SKIP = "skip"
"""What a column is called that is not to be used."""
ROW_NAME = re.compile(r"(?i:(^|[_\W])(id|index|idx|key|nr|no|number)$)|[a-z]ID$")
"""What columns are called whose whole numbers only tell rows apart."""
ROW_ID = re.compile(
    r"(?i:(^|[_\W])(id|idx|index|row|row_?names?|row_?(id|no|nr|number))$)|[a-z]ID$|^Unnamed: \d+$"
)
"""What they are called where that is beyond doubt."""
APART = "it only tells rows apart"


@dataclass(frozen=True)
class Layout:
    """What the columns of a table are."""

    contents: Mapping[str, ItemColumn]
    """Columns of items: texts, or paths of files."""
    features: tuple[str, ...]
    """Columns of numbers, dates and categories."""
    unused: Mapping[str, str]
    """Columns that are left out, and why."""


def lay_out(frame: Any, chosen: Mapping[str, str]) -> Layout:  # noqa: ANN401 - a DataFrame
    """Decide what each column holds: items, something to compare, or nothing to go by.

    `chosen` decides for some: the kind of their items, the encoder that reads these, "table" for
    numbers and categories, "skip". Columns that only tell rows apart are left out: row numbers that
    are called so, beside items all that look so, and those that say nothing; without items these
    are the business of `TableEncoder`.
    """
    for name in chosen:
        _require_column(frame, name)
    unused = {name: "as was asked" for name in frame if chosen.get(name) == SKIP}
    rest = [name for name in frame if name not in unused]
    items = {name: _item_column(name, frame[name], chosen.get(name)) for name in rest}
    contents = {name: item for name, item in items.items() if item is not None}
    reasons = {name: _reason_against(name, frame[name]) for name in rest if name not in contents}
    texts = [name for name in reasons if name not in chosen and _may_be_text(frame[name])]
    if not contents and all(reasons[name] or name in texts for name in reasons):
        contents = dict.fromkeys(texts, ItemColumn(Modality.TEXT))  # there is nothing else
    if contents:
        unused |= {name: why for name, why in reasons.items() if why and name not in chosen}
    else:
        numbered = [name for name in reasons if reasons[name] == APART and ROW_ID.search(name)]
        numbered = [name for name in numbered if name not in chosen]
        numbered = [name for name in numbered if kind_of(frame[name]) is Kind.NUMBER]
        unused |= dict.fromkeys(numbered if len(numbered) < len(rest) else (), APART)
    features = [name for name in rest if name not in contents and name not in unused]
    return Layout(contents, tuple(features), {n: w for n, w in unused.items() if n not in contents})


def _may_be_text(cells: Any) -> bool:  # noqa: ANN401 - a Series
    return _may_hold(cells) and holds_texts(cells)


def _has_sentences(items: Sequence[str]) -> bool:
    """Tell texts from names and addresses: most texts have a word without a capital letter."""
    words = (word for item in items for word in item.split())
    return sum(word[0].isalpha() and not word[0].isupper() for word in words) >= len(items)


def _item_column(name: str, cells: Any, chosen: str | None) -> ItemColumn | None:  # noqa: ANN401
    """Say what items a column holds, as it looks or as was chosen; None if it holds none."""
    if chosen == Modality.TABLE:
        return None
    items = [cell for cell in cells if not is_gap(cell) and cell != ""] if _may_hold(cells) else []
    are_files = all(isinstance(item, Path) for item in items) and bool(items)
    if items and all(isinstance(item, str) for item in items):
        are_files = look_like_files(items)
    if chosen is not None:
        known = Modality(chosen) if chosen in list(Modality) else encoder_names().get(chosen)
        if known is None:
            known = common_modality(map(Path, items), repr(name)) if are_files else Modality.TEXT
        return ItemColumn(known, AUTO if chosen in list(Modality) else chosen, are_files)
    if are_files:
        return ItemColumn(common_modality(map(Path, items), f"column {name!r}"), AUTO, True)
    if items and all(map(is_image, items)):
        return ItemColumn(Modality.IMAGE)
    if items and all(map(is_sound, items)):
        return ItemColumn(Modality.AUDIO)
    is_text = _may_be_text(cells) and _has_sentences(list(map(str, items)))
    return ItemColumn(Modality.TEXT) if is_text else None


def _may_hold(cells: Any) -> bool:  # noqa: ANN401 - a Series
    """Tell whether cells may be items: numbers, dates and booleans are not."""
    return str(cells.dtype) in ("object", "category") or str(cells.dtype).startswith("str")


def _reason_against(name: str, cells: Any) -> str | None:  # noqa: ANN401 - a Series
    """Say why a column beside items tells nothing of classes, if so."""
    if _is_row_name(name, cells):
        return APART
    learned = learn(name, cells)
    return learned if isinstance(learned, str) else None


def choose_content(
    frame: Any,  # noqa: ANN401 - a DataFrame
    folder: Path,
    *,
    column: str | None,
    modality: Modality | None,
) -> tuple[str, ItemColumn]:
    """Return the one column that holds the items, by its name or by their kind."""
    if column is not None:
        _require_column(frame, column)
        return column, _content_of(frame, column, folder, modality)
    files = [name for name in frame if _hold_files(frame[name])]
    if files:
        column = _only(files, "file names")
        return column, _content_of(frame, column, folder, modality)
    if modality is not Modality.TEXT:
        raise _no_files(list_columns(frame.columns), modality, folder)
    column = _only([name for name in frame if _is_text(frame, name)], "text")
    return column, _content_of(frame, column, folder, modality)


def _content_of(frame: Any, column: str, folder: Path, modality: Modality | None) -> ItemColumn:  # noqa: ANN401
    """Decide what one column holds."""
    if modality is Modality.TABLE:
        raise InvalidInput(
            "a table of features has no content column",
            got=f"--content-column {column} and --modality table",
            allowed="one of them",
        )
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
    """Return the texts or paths of a column, None where there is none, and how many are not."""
    texts = texts_of(cells)
    if not column.are_files:
        items: list[Any] = [text or None for text in texts]
    else:
        base = _paths_begin([text for text in texts if text], folder, name)
        fitting = (text and modality_of(Path(text)) is column.modality for text in texts)
        items = [base / text if fits else None for text, fits in zip(texts, fitting, strict=True)]
    return items, items.count(None)


def _paths_begin(cells: Sequence[str], folder: Path, column: str) -> Path:
    """Say where most paths lead to files: from beside the table, or else from where we are.

    Answers about files have their paths as they were given, wherever the answers were written.
    """
    # os.path, since pathlib raises an error where a name is too long for the system.
    counts = {base: sum(os.path.isfile(base / cell) for cell in cells) for base in (folder, Path())}
    best = max(counts, key=lambda base: counts[base])
    if cells and not counts[best]:
        raise InvalidInput(
            f"no file that column {column!r} names is there",
            got=f"{str(folder / cells[0])!r} and others",
            allowed="paths of files, absolute, or relative to the table or to the current folder",
            remedy="Put the table beside its files, go to the folder that the paths begin in, or"
            f" leave the column out: --column {column}=skip.",
        )
    return best


def _hold_files(cells: Any) -> bool:  # noqa: ANN401 - a Series
    return look_like_files([cell for cell in texts_of(cells) if cell])


def _is_text(frame: Any, name: str) -> bool:  # noqa: ANN401
    cells = [cell for cell in texts_of(frame[name]) if cell]
    if not cells or all(map(is_number, cells)) or has_decimal_commas(cells):
        return False
    return len(frame.columns) == 1 or are_texts(cells)


def _is_row_name(name: str, cells: Any) -> bool:  # noqa: ANN401 - a Series
    """Say whether a column only tells rows apart: each has its own name, or number that rises.

    In few rows that happens by chance: then the column must be called so.
    """
    kind, values = kind_of(cells), keys_of(cells)
    differ = len(set(values)) == len(values) > 1
    if not differ or kind not in (Kind.CATEGORY, Kind.NUMBER):
        return False
    called_so = bool(ROW_NAME.search(name) or ROW_ID.search(name))
    many = len(values) > MIN_NAMES
    if kind is Kind.CATEGORY:
        return called_so or many
    numbers = numbers_of(cells, kind)
    rises = many and bool((np.diff(numbers) > 0).all())
    return (called_so or rises) and bool((numbers == np.rint(numbers)).all())


def _only(names: list[str], what: str) -> str:
    if len(names) != 1:
        raise InvalidInput(
            f"it is not clear which column holds the {what}",
            got=", ".join(map(repr, names)) or "no such column",
            allowed="one column",
            remedy="Name it: --content-column COLUMN.",
        )
    return names[0]


def _require_column(frame: Any, column: str) -> None:  # noqa: ANN401
    if column not in frame:
        raise no_item_column(frame.columns, column)


def _no_files(got: str, modality: Modality | None, folder: Path) -> InvalidInput:
    return InvalidInput(
        f"no column names {modality} files",
        got=got,
        allowed=f"a column of paths, absolute or relative to {folder}",
        remedy="Name the column: --content-column COLUMN; or say what it holds: --modality KIND.",
    )
