"""Cells of tables, as the texts that files hold: numbers, names, or missing."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from unitail.extras import optional
from unitail.inputs.numbers_and_dates import Style, read_dates, read_number, style_of
from unitail.wording import numbered

STYLES, ORDERS = "styles", "orders of dates"
MISSING = frozenset(
    {"", "na", "n/a", "n.a.", "#n/a", "nan", "null", "none", "?", "-", "\N{EN DASH}", "\N{EM DASH}"}
)
"""Cells of a table that say that a value is missing, in lower case."""
FORMULA = re.compile(r"[=@\t\r].*|[+-](?![0-9.]+(e[+-]?[0-9]+)?$).*", re.IGNORECASE | re.DOTALL)
"""What a spreadsheet would compute: text that begins so and is not a number."""


def texts_of(cells: Sequence[Any]) -> list[str]:
    """Write cells as texts without spaces around them; missing ones are empty."""
    return ["" if _is_missing(cell) else str(cell).strip() for cell in cells]


def as_features(frame: Any, like: Any = None) -> tuple[Any, list[str]]:  # noqa: ANN401
    """Turn cells into numbers (float64) or names (objects), missing ones into NaN and None.

    A column is numeric if all of its cells are, written in one way
    (`unitail.inputs.numbers_and_dates`). Dates are texts that begin with the year, however they
    were written.
    With `like`, only its columns are returned, as far as they are there, and numeric if they are
    there; cells without a number or date are then missing too, and told in the phrases returned.
    """
    pandas = optional("pandas", extra="encoders")
    names = list(frame) if like is None else [name for name in like if name in frame]
    orders = {} if like is None else orders_of_dates(like)
    styles, notes = dict[str, Style](), list[str]()
    columns = {name: _without_missing(frame[name]) for name in names}
    for name in names:
        if like is None or name in orders:  # what is not a date among the examples stays as it is
            columns[name] = _dated(columns[name], name, orders, notes)
    known = {} if like is None else written_styles(like)
    commas = any(style.has_commas for style in known.values())
    commas = commas or any(map(_has_commas, columns.values()))
    for name, texts in columns.items():
        style = known.get(name) or _style(texts, prefer_commas=commas)
        numbers = _numbers(texts, style)
        wrong = texts[numbers.isna() & texts.notna()]
        are_names = len(wrong) if like is None else like[name].dtype == object
        if are_names:
            continue
        columns[name] = numbers
        styles |= {name: style} if style else {}
        notes += _without("number", name, list(wrong))
    features = pandas.DataFrame(columns)
    features.attrs.update({STYLES: styles, ORDERS: orders})
    return features, notes


def written_styles(features: Any) -> dict[str, Style]:  # noqa: ANN401 - a DataFrame
    """Say how numbers were written in those columns of features that are not plain."""
    return dict(features.attrs.get(STYLES, {}))


def orders_of_dates(features: Any) -> dict[str, bool | None]:  # noqa: ANN401 - a DataFrame
    """Say which columns hold dates, and whether the day is first; None: nobody had to guess."""
    return dict(features.attrs.get(ORDERS, {}))


def reading_of(features: Any) -> dict[str, Any]:  # noqa: ANN401 - a DataFrame
    """Return how numbers and dates were written, for JSON; nothing if all were plain."""
    styles, orders = written_styles(features), orders_of_dates(features)
    plain = {name: asdict(style) for name, style in styles.items()}
    return {STYLES: plain, ORDERS: orders} if plain or orders else {}


def with_reading(features: Any, reading: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a DataFrame
    """Let a table be read as one of which `reading_of` told; `TypeError` if that is damaged."""
    styles = {name: Style(**style) for name, style in dict(reading.get(STYLES, {})).items()}
    if not all(isinstance(style.beside, str) for style in styles.values()):
        raise TypeError("what stands beside numbers is not text")
    features.attrs.update({STYLES: styles, ORDERS: dict(reading.get(ORDERS, {}))})
    return features


def joined_reading(tables: Sequence[Any]) -> dict[str, Any]:
    """Return how all tables were written, of which pandas keeps nothing where they differ."""
    return {
        key: {name: how for table in tables for name, how in table.attrs.get(key, {}).items()}
        for key in (STYLES, ORDERS)
    }


def _dated(texts: Any, name: str, orders: dict[str, bool | None], notes: list[str]) -> Any:  # noqa: ANN401
    """Write the dates of a column, if it holds such, in one way, and note their order."""
    present, known = texts[texts.notna()], name in orders
    dates = read_dates(list(present), day_first=orders.get(name), every=not known)
    if dates is None:
        return texts
    written, day_first = dates
    orders[name] = orders.get(name) if day_first is None else day_first
    texts = texts.copy()
    texts[present.index] = [iso or cell for iso, cell in zip(written, present, strict=True)]
    notes += _without("date", name, list(present[[iso is None for iso in written]]))
    return texts


def _without(what: str, name: str, wrong: Sequence[str]) -> list[str]:
    """Tell of cells that are not what their column holds among the examples."""
    cells = numbered(len(wrong), "cell")
    return [f"{cells} of {name!r} without a {what} ({wrong[0]!r})"] if wrong else []


def _without_missing(cells: Any) -> Any:  # noqa: ANN401 - a Series
    pandas = optional("pandas", extra="encoders")
    texts = pandas.Series(texts_of(cells), dtype=object)
    return texts.where(~texts.str.lower().isin(MISSING), None)


def _has_commas(texts: Any) -> bool:  # noqa: ANN401 - a Series
    return has_decimal_commas([text for text in texts if text is not None])


def _style(texts: Any, *, prefer_commas: bool) -> Style | None:  # noqa: ANN401 - a Series
    """Say how a column writes numbers; None if they are plain, or none."""
    if not _numbers(texts, None)[texts.notna()].isna().any():
        return None
    return style_of([text for text in texts if text is not None], prefer_commas=prefer_commas)


def _numbers(texts: Any, style: Style | None) -> Any:  # noqa: ANN401 - a Series
    """Return the numbers that cells hold, NaN where they hold none."""
    pandas = optional("pandas", extra="encoders")
    if style is None:
        return pandas.to_numeric(texts, errors="coerce").astype("float64")
    read = [math.nan if text is None else read_number(text, style) for text in texts]
    return pandas.Series(read, dtype="float64")


def has_decimal_commas(cells: Sequence[str]) -> bool:
    """Tell whether all cells are numbers, and some have commas that are decimal points."""
    style = style_of(cells)
    return style is not None and style.has_commas


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
