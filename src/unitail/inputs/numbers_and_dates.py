"""Numbers and dates as people write them.

Numbers are 1,234.50, 1.234,50, 1 234, $ 12, 7.5 %, 300 kg or (12); dates 3.2.2021 or 02/03/2021.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

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
