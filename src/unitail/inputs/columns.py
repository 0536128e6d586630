"""Which column of a table holds the items, and what the others are."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unitail.encoders.columns import are_texts
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput
from unitail.extras import optional
from unitail.inputs.recognise import look_like_files
from unitail.inputs.suffixes import common_modality
from unitail.inputs.tables import list_columns
from unitail.wording import numbered

COMMAS = "decimal_commas"
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""Cells of a table that say that a value is missing, in lower case."""
DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?")
"""A number as 1.234,5 or 0,5."""
THOUSANDS = re.compile(r"[+-]?([1-9]\d{0,2}(,\d{3})+|\d+|\d+\.\d+)")
"""A number whose commas may divide thousands, as in 1,234."""


@dataclass(frozen=True)
class Content:
    """What the rows of a table are."""

    modality: Modality
    column: str | None
    """The column of texts or paths; None if all columns are features."""
    folder: Path | None = None
    """Where the paths begin, if the column holds paths."""


def choose_content(
    frame: Any,  # noqa: ANN401 - a DataFrame
    folder: Path,
    *,
    column: str | None,
    modality: Modality | None,
) -> Content:
    """Decide what the rows are, as far as there is no doubt.

    A column of file names wins; then a column of text that has nothing but row numbers beside it;
    then all columns are features.
    """
    if column is not None:
        _require_column(frame, column)
        return _content_of(frame, column, folder, modality)
    if modality is Modality.TABLE:
        return Content(Modality.TABLE, None)
    names_of_files = [name for name in frame if _hold_files(frame[name])]
    if names_of_files:
        return _content_of(frame, _only(names_of_files, "file names"), folder, modality)
    texts = [name for name in frame if _is_text(frame, name)]
    features = [name for name in frame if name not in texts and not _is_row_name(frame[name])]
    if modality is Modality.TEXT or (texts and not features):
        return _content_of(frame, _only(texts, "text"), folder, modality)
    if modality is not None:
        raise _no_files(list_columns(frame), modality, folder)
    if texts:
        raise InvalidInput(
            "the rows may be texts or rows of features",
            got=f"text in {', '.join(map(repr, texts))} beside {', '.join(map(repr, features))}",
            allowed="one of the two",
            remedy="Name the texts, --content-column COLUMN, or take --modality table.",
        )
    return Content(Modality.TABLE, None)


def texts_of(cells: Sequence[Any]) -> list[str]:
    """Write cells as texts without spaces around them; missing ones are empty."""
    return ["" if _is_missing(cell) else str(cell).strip() for cell in cells]


def as_features(frame: Any, like: Any = None) -> tuple[Any, list[str]]:  # noqa: ANN401
    """Turn cells into numbers (float64) or names (objects), missing ones into NaN and None.

    A column is numeric if all of its cells are. With `like`, only its columns are returned, as far
    as they are there, and numeric if they are there; cells without a number are then missing
    too, and told in the phrases returned. Decimal commas are read where no cell has a point instead
    and the commas cannot divide thousands.
    """
    pandas = optional("pandas", extra="encoders")
    columns, notes, commas = {}, [], []
    for name in frame if like is None else [name for name in like if name in frame]:
        texts = pandas.Series(texts_of(frame[name]), dtype=object)
        texts = texts.where(~texts.str.lower().isin(MISSING), None)
        if _reads_commas(name, texts, like):
            texts = texts.str.replace(".", "").str.replace(",", ".")
            commas.append(name)
        numbers = pandas.to_numeric(texts, errors="coerce").astype("float64")
        wrong = texts[numbers.isna() & texts.notna()]
        if like is None:
            columns[name] = texts if len(wrong) else numbers
        elif like[name].dtype == object:
            columns[name] = texts
        else:
            columns[name] = numbers
            if len(wrong):
                cells = numbered(len(wrong), "cell")
                notes.append(f"{cells} of {name!r} without a number ({wrong.iloc[0]!r})")
    features = pandas.DataFrame(columns)
    features.attrs[COMMAS] = commas
    return features, notes


def _content_of(frame: Any, column: str, folder: Path, modality: Modality | None) -> Content:  # noqa: ANN401
    """Decide what one column holds."""
    if modality is Modality.TABLE:
        raise InvalidInput(
            "a table of features has no content column", got=repr(column), allowed="none"
        )
    if not _hold_files(frame[column]):
        if modality not in (None, Modality.TEXT):
            raise _no_files(repr(column), modality, folder)
        return Content(Modality.TEXT, column)
    cells = [cell for cell in texts_of(frame[column]) if cell]
    base = _base(cells, folder)
    if base is None:
        raise InvalidInput(
            f"no file that column {column!r} names is there",
            got=f"{str(folder / cells[0])!r} and others",
            allowed="paths of files, absolute, or relative to the table or to the current folder",
            remedy="Put the table beside its files, or go to the folder that the paths begin in.",
        )
    paths = [base / cell for cell in cells]
    return Content(modality or common_modality(paths, f"column {column!r}"), column, folder=base)


def _base(cells: Sequence[str], folder: Path) -> Path | None:
    """Say where most of the paths lead to files: beside the table, or else from where we are.

    Answers about files have their paths as they were given, wherever the answers were written.
    """
    found = {base: sum((base / cell).is_file() for cell in cells) for base in (folder, Path())}
    best = max(found, key=lambda base: found[base])
    return best if found[best] else None


def _hold_files(cells: Any) -> bool:  # noqa: ANN401 - a Series
    return look_like_files([cell for cell in texts_of(cells) if cell])


def _is_text(frame: Any, name: str) -> bool:  # noqa: ANN401
    cells = [cell for cell in texts_of(frame[name]) if cell]
    if not cells or all(map(_is_number, cells)) or _has_decimal_commas(cells):
        return False
    return len(frame.columns) == 1 or are_texts(cells)


def decimal_commas(features: Any) -> list[str]:  # noqa: ANN401 - a DataFrame
    """Name the columns of features whose numbers were written with decimal commas."""
    return list(features.attrs.get(COMMAS, ()))


def _reads_commas(name: str, texts: Any, like: Any) -> bool:  # noqa: ANN401 - a Series, a DataFrame
    """Tell whether commas are decimal: by the cells, or since they were among the examples."""
    cells = [text for text in texts if text is not None]
    known = like is not None and name in decimal_commas(like)
    return _has_decimal_commas(cells) or (known and all(map(DECIMAL_COMMA.fullmatch, cells)))


def _has_decimal_commas(cells: Sequence[str]) -> bool:
    return (
        any("," in cell for cell in cells)
        and all(DECIMAL_COMMA.fullmatch(cell) for cell in cells)
        and not all(THOUSANDS.fullmatch(cell) for cell in cells)
    )


def _is_row_name(cells: Any) -> bool:  # noqa: ANN401
    """Say whether a column only tells rows apart: all distinct, and no measurements."""
    texts = texts_of(cells)
    fractions = any("." in cell and _is_number(cell) for cell in texts)
    measured = fractions or _has_decimal_commas([cell for cell in texts if cell])
    return len(set(texts)) == len(texts) and not measured


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return text.lower() in MISSING


def _is_missing(cell: object) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


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
        raise InvalidInput(
            f"a table has no column {column!r} to take its items from",
            got=list_columns(frame),
            allowed="the column that was named, or that the examples are in",
            remedy="Rename the column.",
        )


def _no_files(got: str, modality: Modality | None, folder: Path) -> InvalidInput:
    return InvalidInput(
        f"no column names {modality} files",
        got=got,
        allowed=f"a column of paths, absolute or relative to {folder}",
    )
