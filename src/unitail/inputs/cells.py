"""Cells of tables, as the texts that files hold: numbers, dates, names, or missing.

People write numbers as 1,234.50, 1.234,50, 1 234, $ 12, 7.5 %, 300 kg or (12), and dates as
3.2.2021 or 02/03/2021; a column is written in one way.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.errors import optional
from unitail.wording import numbered

STYLES, ORDERS = "styles", "orders of dates"
MISSING = frozenset(
    {"", "na", "n/a", "n.a.", "#n/a", "nan", "null", "none", "?", "-", "\N{EN DASH}", "\N{EM DASH}"}
)
"""Cells of a table that say that a value is missing, in lower case."""
FORMULA = re.compile(r"[=@\t\r].*|[+-](?![0-9.]+(e[+-]?[0-9]+)?$).*", re.IGNORECASE | re.DOTALL)
"""What a spreadsheet would compute: text that begins so and is not a number."""

CURRENCY = "$€£¥₹₽₩₺₫₴₦₪฿"
CODES = "USD EUR GBP CHF JPY CNY INR AUD CAD NZD SEK NOK DKK PLN CZK HUF RUB BRL KRW ZAR MXN TRY"
SPACES = " '\N{RIGHT SINGLE QUOTATION MARK}\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
"""What may divide thousands beside commas and points."""
SIGNS = "-+\N{MINUS SIGN}"
"""In this order they may stand in a class of characters."""
_BEFORE = rf"[A-Z]{{0,3}}[{CURRENCY}]|(?:{'|'.join(CODES.split())})(?=\s)"
_AFTER = rf"[%‰{CURRENCY}]|°[CF]?|[^\W\d_]{{1,6}}[²³]?(?:/[^\W\d_]{{1,4}}[²³]?)?"
_CELL = re.compile(
    rf"(?P<owed>\()?(?P<sign>[{SIGNS}]?)\s*(?P<before>{_BEFORE})?\s*(?P<later>[{SIGNS}]?)"
    rf"(?P<digits>[.,]?\d(?:[\d.,{SPACES}]*\d)?)\s*(?P<after>{_AFTER})?(?(owed)\))"
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


@dataclass(frozen=True)
class Style:
    """How the numbers of a column are written."""

    decimal: str
    """The mark before their decimals."""
    beside: str = ""
    """The currency, per cent sign or unit that stands beside them."""
    thousands: bool = False
    """Whether there are commas that divide thousands."""

    @property
    def has_commas(self) -> bool:
        """Whether commas are decimal points."""
        return self.decimal == ","


def style_of(cells: Sequence[str], *, prefer_commas: bool = False) -> Style | None:
    """Say how all cells write numbers; None if some are not numbers, or differ in units.

    Commas that may be decimal points or divide thousands, as in 1,234, divide thousands unless the
    former is preferred.
    """
    parts = [_CELL.fullmatch(cell) for cell in cells]
    numbers = [part for part in parts if part is not None]
    units = [{part[side] for part in numbers} - {None} for side in ("before", "after")]
    if not numbers or len(numbers) < len(cells) or max(map(len, units)) > 1:
        return None
    beside = " ".join(unit for side in units for unit in side)
    digits = [part["digits"] for part in numbers]
    points, commas = (all(map(form.fullmatch, digits)) for form in (_POINT, _COMMA))
    has_commas = any("," in each for each in digits)
    if commas and has_commas and (prefer_commas or not points):
        return Style(",", beside)
    return Style(".", beside, has_commas) if points else None


def read_number(cell: str, style: Style) -> float:
    """Return the number that a cell of this style holds; NaN if it holds none."""
    part = _CELL.fullmatch(cell)
    form = _COMMA if style.has_commas else _POINT
    if part is None or not form.fullmatch(part["digits"]) or not _fits(part, style):
        return math.nan
    plain = re.sub(f"[{'.' if style.has_commas else ','}{SPACES}]", "", part["digits"])
    number = float(plain.replace(",", "."))
    negative = part["owed"] or {part["sign"], part["later"]} & {"-", "\N{MINUS SIGN}"}
    return -number if negative else number


def _fits(part: re.Match[str], style: Style) -> bool:
    """Tell whether nothing stands beside a number but what does among the examples."""
    beside = {part["before"], part["after"]} - {None}
    return not style.beside or beside <= set(style.beside.split())


def read_dates(
    cells: Sequence[str], *, day_first: bool | None = None, every: bool = True
) -> tuple[list[str | None], bool | None] | None:
    """Write dates as 2021-02-03, and say whether days stood first; None if some are not dates.

    What begins with a year needs no order, and points stand after days. Else it is as given, or as
    a number above 12 has it, or the month is first. The order is None if none was needed. Unless
    `every` cell must be a date, None stands for those that are not.
    """
    matches = [_DATE.fullmatch(cell) for cell in cells]
    dates = [each for each in matches if each is not None]
    if not dates or (every and len(dates) < len(cells)):
        return None
    open_ones = [each for each in dates if each["mark"] in ("/", "-")]
    if day_first is None:
        day_first = any(int(each["first"]) > MONTHS for each in open_ones)
    written = [
        None if each is None else _iso(each, day_first=day_first or each["mark"] == ".")
        for each in matches
    ]
    if every and None in written:
        return None
    return written, day_first if open_ones else None


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
    hours, _, rest = (match["time"] or "").partition(":")
    return f"{iso} {hours:0>2}:{rest}" if rest else iso


def is_gap(item: object) -> bool:
    """Tell whether a cell, or an item, is missing."""
    is_nan = isinstance(item, float) and math.isnan(item)
    return item is None or is_nan or type(item).__name__ == "NAType"  # of pandas


def texts_of(cells: Sequence[Any]) -> list[str]:
    """Write cells as texts without spaces around them; missing ones are empty."""
    return ["" if is_gap(cell) else str(cell).strip() for cell in cells]


def as_features(frame: Any, like: Any = None) -> tuple[Any, list[str]]:  # noqa: ANN401
    """Turn cells into numbers (float64) or names (objects), missing ones into NaN and None.

    A column is numeric if all of its cells are, written in one way; dates are texts that begin with
    the year. With `like`, those of its columns that are there are returned, and numeric if they are
    in it; cells without a number or date are then missing too, and told in the phrases returned.
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
    commas = commas or any(has_decimal_commas(_present(each)) for each in columns.values())
    made: dict[str, Any] = {}
    for name, texts in columns.items():
        numbers, style = _numbers(texts, known.get(name), prefer_commas=commas)
        wrong = _wrong(texts, numbers)
        are_names = wrong if like is None else like[name].dtype == object
        made[name] = pandas.Series(texts, dtype=object) if are_names else numbers
        if not are_names:
            styles |= {name: style} if style else {}
            notes += _without("number", name, wrong)
    features = pandas.DataFrame(made)
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


def _dated(
    texts: Sequence[str | None], name: str, orders: dict[str, bool | None], notes: list[str]
) -> Sequence[str | None]:
    """Write the dates of a column, if it holds such, in one way, and note their order."""
    present, known = _present(texts), name in orders
    dates = read_dates(present, day_first=orders.get(name), every=not known)
    if dates is None:
        return texts
    written, day_first = dates
    orders[name] = orders.get(name) if day_first is None else day_first
    pairs = list(zip(written, present, strict=True))
    notes += _without("date", name, [cell for iso, cell in pairs if iso is None])
    dated = iter([iso or cell for iso, cell in pairs])
    return [None if text is None else next(dated) for text in texts]


def _without(what: str, name: str, wrong: Sequence[str]) -> list[str]:
    """Tell of cells that are not what their column holds among the examples."""
    cells = numbered(len(wrong), "cell")
    return [f"{cells} of {name!r} without a {what} ({wrong[0]!r})"] if wrong else []


def _without_missing(cells: Sequence[Any]) -> Sequence[str | None]:
    return [None if text.lower() in MISSING else text for text in texts_of(cells)]


def _present(texts: Sequence[str | None]) -> list[str]:
    return [text for text in texts if text is not None]


def _numbers(
    texts: Sequence[str | None], style: Style | None, *, prefer_commas: bool
) -> tuple[NDArray[np.float64], Style | None]:
    """Return the numbers that cells hold, NaN where they hold none, and how they are written.

    `style` is how they are known to be; else it is found out, and None if they are plain, or none.
    """
    pandas = optional("pandas", extra="encoders")
    if style is None:
        cells = np.array(texts, dtype=object)
        numbers = pandas.to_numeric(cells, errors="coerce").astype(np.float64)
        if _wrong(texts, numbers):
            style = style_of(_present(texts), prefer_commas=prefer_commas)
        if style is None:
            return numbers, None
    read = [math.nan if text is None else read_number(text, style) for text in texts]
    return np.array(read, dtype=np.float64), style


def _wrong(texts: Sequence[str | None], numbers: NDArray[np.float64]) -> list[str]:
    """Return the cells that are no numbers, and not missing."""
    return _present([texts[place] for place in np.flatnonzero(np.isnan(numbers)).tolist()])


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


def harmless(cell: Any) -> Any:  # noqa: ANN401 - whatever a cell holds
    """Put an apostrophe before a formula: spreadsheets take what follows as text."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.fullmatch(cell) else cell


def as_meant(cell: str) -> str:
    """Undo `harmless`."""
    return cell[1:] if cell.startswith("'") and FORMULA.fullmatch(cell[1:]) else cell
