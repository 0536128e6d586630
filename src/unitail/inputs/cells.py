"""Cells of tables, as the texts that files hold: numbers, names, or missing."""

import math
import re
from collections.abc import Sequence
from typing import Any

from unitail.extras import optional
from unitail.wording import numbered

COMMAS = "decimal_commas"
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""Cells of a table that say that a value is missing, in lower case."""
DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?")
"""A number as 1.234,5 or 0,5."""
THOUSANDS = re.compile(r"[+-]?([1-9]\d{0,2}(,\d{3})+|\d+|\d+\.\d+)")
"""A number whose commas may divide thousands, as in 1,234."""
FORMULA = re.compile(r"[=@\t\r].*|[+-](?![0-9.]+(e[+-]?[0-9]+)?$).*", re.IGNORECASE | re.DOTALL)
"""What a spreadsheet would compute: text that begins so and is no number."""


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


def decimal_commas(features: Any) -> list[str]:  # noqa: ANN401 - a DataFrame
    """Name the columns of features whose numbers were written with decimal commas."""
    return list(features.attrs.get(COMMAS, ()))


def _reads_commas(name: str, texts: Any, like: Any) -> bool:  # noqa: ANN401 - a Series, a DataFrame
    """Tell whether commas are decimal: by the cells, or since they were among the examples."""
    cells = [text for text in texts if text is not None]
    known = like is not None and name in decimal_commas(like)
    return has_decimal_commas(cells) or (known and all(map(DECIMAL_COMMA.fullmatch, cells)))


def has_decimal_commas(cells: Sequence[str]) -> bool:
    """Tell whether all cells are numbers, and some have commas that are decimal points."""
    return (
        any("," in cell for cell in cells)
        and all(DECIMAL_COMMA.fullmatch(cell) for cell in cells)
        and not all(THOUSANDS.fullmatch(cell) for cell in cells)
    )


def is_number(text: str) -> bool:
    """Tell whether a cell is a number, or missing."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return text.lower() in MISSING


def _is_missing(cell: object) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def harmless(cell: Any) -> Any:  # noqa: ANN401 - whatever a cell holds
    """Put an apostrophe before a formula: spreadsheets take what follows as text."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.fullmatch(cell) else cell


def as_meant(cell: str) -> str:
    """Undo `harmless`."""
    return cell[1:] if cell.startswith("'") and FORMULA.fullmatch(cell[1:]) else cell
