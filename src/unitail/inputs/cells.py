"""Parse the text of table cells: numbers, dates, names, or missing values.

People write numbers as 1,234.50, 1.234,50, 1 234, $ 12, 7.5 %, 300 kg or (12), and dates as
3.2.2021 or 02/03/2021. One column is assumed to use one format.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.tables import category_of
from unitail.errors import optional
from unitail.wording import numbered

STYLES, ORDERS = "styles", "orders of dates"
MISSING = frozenset(
    {"", "na", "n/a", "n.a.", "#n/a", "nan", "null", "none", "?", "-", "\N{EN DASH}", "\N{EM DASH}"}
)
"""Cells that stand for a missing value, in lower case."""
FORMULA = re.compile(r"[=@\t\r].*|[+-](?![0-9.]+(e[+-]?[0-9]+)?$).*", re.IGNORECASE | re.DOTALL)
"""Text that a spreadsheet would evaluate: it begins like a formula and is not a number."""

CURRENCY = "$€£¥₹₽₩₺₫₴₦₪฿"
CODES = "USD EUR GBP CHF JPY CNY INR AUD CAD NZD SEK NOK DKK PLN CZK HUF RUB BRL KRW ZAR MXN TRY"
SPACES = " '\N{RIGHT SINGLE QUOTATION MARK}\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
"""Thousands separators other than commas and points."""
SIGNS = "-+\N{MINUS SIGN}"
"""The hyphen comes first, so that it is literal inside a regex character class."""
_BEFORE = rf"[A-Z]{{0,3}}[{CURRENCY}]|(?:{'|'.join(CODES.split())})(?=\s)"
_AFTER = rf"[%‰{CURRENCY}]|°[CF]?|[^\W\d_]{{1,6}}[²³]?(?:/[^\W\d_]{{1,4}}[²³]?)?"
_CELL = re.compile(
    rf"(?P<bracket>\()?(?P<sign>[{SIGNS}]?)\s*(?P<before>{_BEFORE})?\s*(?P<later>[{SIGNS}]?)"
    rf"(?P<digits>[.,]?\d(?:[\d.,{SPACES}]*\d)?)\s*(?P<after>{_AFTER})?(?(bracket)\))"
)
_POINT = re.compile(
    rf"\d+(\.\d+)?|\.\d+|[1-9]\d{{0,2}}(?P<mark>[,{SPACES}])\d{{3}}((?P=mark)\d{{3}})*(\.\d+)?"
)
_COMMA = re.compile(
    rf"\d+(,\d+)?|,\d+|[1-9]\d{{0,2}}(?P<mark>[.{SPACES}])\d{{3}}((?P=mark)\d{{3}})*(,\d+)?"
)
_DATE = re.compile(
    r"(?:(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})"
    r"|(?P<first>\d{1,2})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<last>\d{4}))"
    r"(?:(?:T|,? )(?P<time>\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?Z?))?"
)
MONTHS = 12
MAX_ODD_SHARE = 0.1
"""Largest share of cells that are no numbers in a column that seems meant to hold numbers."""
Formats: TypeAlias = Mapping[str, Mapping[str, Any]]
"""How the cells of each column were read: as numbers or not, their style, the order of dates."""


@dataclass(frozen=True)
class Style:
    """The format of the numbers in a column."""

    decimal: str
    """The decimal mark, "." or ","."""
    beside: str = ""
    """The currency, per cent sign or unit next to the numbers."""
    thousands: bool = False
    """Whether commas separate thousands."""

    @property
    def has_commas(self) -> bool:
        """Whether the decimal mark is a comma."""
        return self.decimal == ","


def style_of(cells: Sequence[str], *, prefer_commas: bool = False) -> Style | None:
    """Return the number format shared by all cells; None if some are not numbers or units differ.

    A comma that could be either, as in 1,234, is a thousands separator unless `prefer_commas`,
    which makes it a decimal mark.
    """
    parts: list[re.Match[str]] = []
    for cell in cells:
        part = _CELL.fullmatch(cell)
        if part is None:  # most columns of names end here, at their first cell
            return None
        parts.append(part)
    units = [{part[side] for part in parts} - {None} for side in ("before", "after")]
    if not parts or max(map(len, units)) > 1:
        return None
    beside = " ".join(unit for side in units for unit in side)
    digits = [part["digits"] for part in parts]
    points, commas = (all(map(form.fullmatch, digits)) for form in (_POINT, _COMMA))
    has_commas = any("," in text for text in digits)
    if commas and has_commas and (prefer_commas or not points):
        return Style(",", beside)
    return Style(".", beside, has_commas) if points else None


def read_number(cell: str, style: Style) -> float:
    """Parse a cell as a number in this format; NaN if it is not one."""
    part = _CELL.fullmatch(cell)
    form = _COMMA if style.has_commas else _POINT
    if part is None or not form.fullmatch(part["digits"]) or not _fits(part, style):
        return math.nan
    plain = re.sub(f"[{'.' if style.has_commas else ','}{SPACES}]", "", part["digits"])
    number = float(plain.replace(",", "."))
    negative = part["bracket"] or {part["sign"], part["later"]} & {"-", "\N{MINUS SIGN}"}
    return -number if negative else number


def _fits(part: re.Match[str], style: Style) -> bool:
    """Return whether the units next to a number are among those of the style."""
    beside = {part["before"], part["after"]} - {None}
    return not style.beside or beside <= set(style.beside.split())


def read_dates(
    cells: Sequence[str], *, day_first: bool | None = None, every: bool = True
) -> tuple[list[str | None], bool | None] | None:
    """Return dates in ISO format and whether days came first; None if some are not dates.

    Dates that begin with a year are unambiguous, and dates with points are day first. For all
    others the order is `day_first`, or day first if some first number is above 12, else month
    first. The returned order is None if no date was ambiguous. With `every=False`, cells that are
    not dates become None instead of rejecting the column.
    """
    if every and not all(map(_DATE.fullmatch, cells)):  # ends at the first cell that is not a date
        return None
    matches = [_DATE.fullmatch(cell) for cell in cells]
    dates = [match for match in matches if match is not None]
    if not dates:
        return None
    ambiguous = [match for match in dates if match["mark"] in ("/", "-")]
    if day_first is None:
        day_first = any(int(match["first"]) > MONTHS for match in ambiguous)
    iso_dates = [
        None if match is None else _iso(match, day_first=day_first or match["mark"] == ".")
        for match in matches
    ]
    if every and None in iso_dates:
        return None
    return iso_dates, day_first if ambiguous else None


def _iso(match: re.Match[str], *, day_first: bool) -> str | None:
    year, month, day = match["year"], match["month"], match["day"]
    if match["mark"]:
        year, month, day = match["last"], match["first"], match["second"]
        if day_first:
            month, day = day, month
    try:
        iso = date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None
    hours, _, minutes = (match["time"] or "").partition(":")
    return f"{iso} {hours:0>2}:{minutes}" if minutes else iso


def is_missing(item: object) -> bool:
    """Return whether a cell or an item is missing: None, NaN or pandas' NA."""
    is_nan = isinstance(item, float) and math.isnan(item)
    return item is None or is_nan or type(item).__name__ == "NAType"  # pandas.NA


def texts_of(cells: Sequence[Any]) -> list[str]:
    """Convert cells to stripped strings; missing ones become empty."""
    return ["" if is_missing(cell) else str(cell).strip() for cell in cells]


def labels_of(cells: Sequence[Any]) -> list[str]:
    """Return cells as labels; empty if missing. Whole numbers of any dtype are equal."""
    labels = ("" if is_missing(cell) else category_of(cell).strip() for cell in cells)
    return list(map(unescape_formula, labels))


def as_features(frame: Any, like: Any = None) -> tuple[Any, list[str]]:  # noqa: ANN401
    """Convert each column to numbers (float64) or names (object); missing cells are NaN or None.

    A column is numeric if all of its cells are numbers in one format; dates become ISO strings.
    With `like`, the columns are those of `like` that exist here, with the same kinds: cells that do
    not fit become missing, and each such column is reported in the returned notes.
    """
    pandas = optional("pandas", extra="encoders")
    names = list(frame) if like is None else [name for name in like if name in frame]
    known_styles = {} if like is None else like.attrs.get(STYLES, {})
    orders = {} if like is None else orders_of_dates(like)
    texts, notes = dict[str, Sequence[str | None]](), list[str]()
    for name in names:
        have_names = like is not None and like[name].dtype == object
        texts[name] = _without_missing(frame[name], are_names=have_names)
        if like is None or name in orders:  # not a date column in the examples: left unchanged
            texts[name] = _with_iso_dates(texts[name], name, orders, notes)
    numbers, styles = _numbers(texts, known_styles)
    converted: dict[str, Any] = {}
    for name in names:
        wrong = _wrong(texts[name], numbers[name])
        are_names = wrong if like is None else like[name].dtype == object
        converted[name] = pandas.Series(texts[name], dtype=object) if are_names else numbers[name]
        if are_names:
            styles.pop(name, None)
            notes += (
                _note_odd_cells(name, wrong, len(_present(texts[name]))) if like is None else []
            )
        else:
            notes += _note_wrong_cells("number", name, wrong)
    features = pandas.DataFrame(converted)
    features.attrs.update({STYLES: styles, ORDERS: orders})
    return features, notes


def as_features_before(frame: Any, formats: Formats) -> tuple[Any, list[str]]:  # noqa: ANN401
    """Convert columns that were read before in the same formats as then, and all others anew."""
    pandas = optional("pandas", extra="encoders")
    known = {name: formats[name] for name in frame if name in formats}
    dtypes = {name: "float64" if how["number"] else "object" for name, how in known.items()}
    like = pandas.DataFrame({name: pandas.Series(dtype=dtype) for name, dtype in dtypes.items()})
    styles = {name: how["style"] for name, how in known.items() if how.get("style")}
    orders = {name: how["day_first"] for name, how in known.items() if "day_first" in how}
    with_reading(like, {STYLES: styles, ORDERS: orders})
    pieces = [as_features(frame[list(known)], like), as_features(frame.drop(columns=list(known)))]
    features = pandas.concat([piece for piece, _ in pieces], axis=1)[list(frame)]
    features.attrs = joined_reading([piece for piece, _ in pieces])
    return features, [note for _, notes in pieces for note in notes]


def formats_of(features: Any) -> Formats:  # noqa: ANN401 - a DataFrame
    """Return how each column was read, as JSON data for `as_features_before`."""
    styles, orders = written_styles(features), orders_of_dates(features)
    return {
        str(name): {
            "number": features[name].dtype != object,
            **({"style": asdict(styles[name])} if name in styles else {}),
            **({"day_first": orders[name]} if name in orders else {}),
        }
        for name in features
    }


def only(columns: Collection[str], features: Any) -> Any:  # noqa: ANN401 - DataFrames
    """Return some of the columns, with their formats and those of no others."""
    chosen = features[[name for name in features if name in columns]]
    formats = {key: features.attrs[key].items() for key in (STYLES, ORDERS)}
    chosen.attrs = {
        key: {name: how for name, how in pairs if name in columns} for key, pairs in formats.items()
    }
    return chosen


def with_fixed_formats(features: Any, *, like: Any) -> Any:  # noqa: ANN401 - DataFrames
    """Return the examples `like` without rows, with the formats in which `features` were read.

    Formats that are still open are plain numbers, and dates with the month first: tables that are
    read like the result never depend on a guess, so any chunk of their rows is read alike.
    """
    empty = like.iloc[:0]
    styles = {**dict.fromkeys(empty), **written_styles(like), **written_styles(features)}
    orders = {**orders_of_dates(like), **orders_of_dates(features)}
    empty.attrs = {STYLES: styles, ORDERS: {name: bool(first) for name, first in orders.items()}}
    return empty


def written_styles(features: Any) -> dict[str, Style]:  # noqa: ANN401 - a DataFrame
    """Return the number formats of the columns that plain float parsing cannot read."""
    styles = features.attrs.get(STYLES, {}).items()
    return {name: style for name, style in styles if style is not None}


def orders_of_dates(features: Any) -> dict[str, bool | None]:  # noqa: ANN401 - a DataFrame
    """Return the date columns and whether the day comes first; None where it is unambiguous."""
    return dict(features.attrs.get(ORDERS, {}))


def reading_of(features: Any) -> dict[str, Any]:  # noqa: ANN401 - a DataFrame
    """Return the formats of numbers and dates as JSON data; empty if all are plain."""
    styles, orders = written_styles(features), orders_of_dates(features)
    plain = {name: asdict(style) for name, style in styles.items()}
    return {STYLES: plain, ORDERS: orders} if plain or orders else {}


def with_reading(features: Any, reading: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a DataFrame
    """Attach the formats that `reading_of` returned to a table; `TypeError` if they are damaged."""
    styles = {name: Style(**style) for name, style in dict(reading.get(STYLES, {})).items()}
    if not all(isinstance(style.beside, str) for style in styles.values()):
        raise TypeError("the unit of numbers is not text")
    features.attrs.update({STYLES: styles, ORDERS: dict(reading.get(ORDERS, {}))})
    return features


def joined_reading(tables: Sequence[Any]) -> dict[str, Any]:
    """Merge the formats of several tables; pandas drops `attrs` that differ when it joins them."""
    return {
        key: {name: how for table in tables for name, how in table.attrs.get(key, {}).items()}
        for key in (STYLES, ORDERS)
    }


def _with_iso_dates(
    texts: Sequence[str | None], name: str, orders: dict[str, bool | None], notes: list[str]
) -> Sequence[str | None]:
    """Convert the dates of a date column to ISO format and record their order in `orders`."""
    present, is_date_column = _present(texts), name in orders
    dates = read_dates(present, day_first=orders.get(name), every=not is_date_column)
    if dates is None:
        return texts
    iso_dates, day_first = dates
    orders[name] = orders.get(name) if day_first is None else day_first
    pairs = list(zip(iso_dates, present, strict=True))
    notes += _note_wrong_cells("date", name, [cell for iso, cell in pairs if iso is None])
    dated = iter([iso or cell for iso, cell in pairs])
    return [None if text is None else next(dated) for text in texts]


def _note_wrong_cells(what: str, name: str, wrong: Sequence[str]) -> list[str]:
    """Return a note on the cells that do not have the kind of their column in the examples."""
    cells = numbered(len(wrong), "cell")
    return [f"{cells} of {name!r} without a {what} ({wrong[0]!r})"] if wrong else []


def _note_odd_cells(name: str, wrong: Sequence[str], present: int) -> list[str]:
    """Return a note on a column of categories that a few cells keep from being one of numbers."""
    if len(wrong) > MAX_ODD_SHARE * present:
        return []
    cells = f"{numbered(len(wrong), 'cell')} without a number ({wrong[0]!r})"
    return [f"{name!r} holds categories, because of {cells} among {present:,}"]


def _without_missing(cells: Sequence[Any], *, are_names: bool) -> Sequence[str | None]:
    """Return cells as texts, None where missing; durations in seconds, unless cells are names."""
    if not are_names:
        cells = [cell.total_seconds() if isinstance(cell, timedelta) else cell for cell in cells]
    return [None if text.lower() in MISSING else text for text in texts_of(cells)]


def _present(texts: Sequence[str | None]) -> list[str]:
    return [text for text in texts if text is not None]


def _numbers(
    columns: Mapping[str, Sequence[str | None]], known: Mapping[str, Style | None]
) -> tuple[dict[str, NDArray[np.float64]], dict[str, Style]]:
    """Return the numbers in columns, NaN where there is none, and the formats of some.

    Numbers are plain where no format is returned. The formats of columns that are not in `known`
    are inferred: a decimal comma in one column decides how the commas of the others are read.
    """
    pandas = optional("pandas", extra="encoders")
    styles, numbers = {name: style for name, style in known.items() if style is not None}, {}
    for name, texts in columns.items():
        cells = np.array(texts, dtype=object)
        numbers[name] = pandas.to_numeric(cells, errors="coerce").astype(np.float64)
    guesses = {
        name: style
        for name, texts in columns.items()
        if name not in known and _wrong(texts, numbers[name])
        if (style := style_of(_present(texts))) is not None
    }
    if any(style.has_commas for style in (*styles.values(), *guesses.values())):
        for name in [name for name, style in guesses.items() if style.thousands]:
            style = style_of(_present(columns[name]), prefer_commas=True)
            assert style is not None
            guesses[name] = style
    styles = {name: style for name, style in (styles | guesses).items() if name in columns}
    for name, style in styles.items():
        parsed = [math.nan if text is None else read_number(text, style) for text in columns[name]]
        numbers[name] = np.array(parsed, dtype=np.float64)
    return numbers, styles


def _wrong(texts: Sequence[str | None], numbers: NDArray[np.float64]) -> list[str]:
    """Return the cells that are neither numbers nor missing."""
    return _present([texts[place] for place in np.flatnonzero(np.isnan(numbers)).tolist()])


def has_decimal_commas(cells: Sequence[str]) -> bool:
    """Return whether all cells are numbers and some have decimal commas."""
    style = style_of(cells)
    return style is not None and style.has_commas


def is_number(text: str) -> bool:
    """Return whether a cell is a plain number, or missing."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return text.lower() in MISSING


def escape_formula(cell: Any) -> Any:  # noqa: ANN401 - whatever a cell holds
    """Prefix a formula with an apostrophe, so that spreadsheets show it as text."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.fullmatch(cell) else cell


def unescape_formula(cell: str) -> str:
    """Undo `escape_formula`."""
    return cell[1:] if cell.startswith("'") and FORMULA.fullmatch(cell[1:]) else cell
