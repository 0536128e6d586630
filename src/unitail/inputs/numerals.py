"""Numbers as people write them: 1,234.50, 1.234,50, 1 234, $ 12, 7.5 %, 300 kg, (12)."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

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
    """Say how all cells write numbers; None if some are none, or have other units than others.

    Commas that may be decimal points or divide thousands, as in 1,234, divide thousands unless the
    former is preferred.
    """
    parts = [_CELL.fullmatch(cell) for cell in cells]
    found = [part for part in parts if part is not None]
    units = [{part[side] for part in found} - {None} for side in ("before", "after")]
    if not found or len(found) < len(cells) or max(map(len, units)) > 1:
        return None
    beside = " ".join(unit for side in units for unit in side)
    digits = [part["digits"] for part in found]
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
