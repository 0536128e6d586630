"""Dates as people write them, 3.2.2021 or 02/03/2021, in the order year, month, day."""

import re
from collections.abc import Sequence
from datetime import date

_DATE = re.compile(
    r"(?:(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})"
    r"|(?P<first>\d{1,2})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<last>\d{4}))"
    r"(?:(?:T|,? )(?P<time>\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?Z?))?"
)
MONTHS = 12


def read_dates(
    cells: Sequence[str], *, day_first: bool | None = None, every: bool = True
) -> tuple[list[str | None], bool | None] | None:
    """Write dates as 2021-02-03, and say whether days stood before months; None if some are none.

    What begins with a year needs no order, and points stand after days. Else it is as given, or as
    a number above 12 has it, or the month is first. The order is None if none was needed. Unless
    `every` cell must be a date, None stands for those that are none.
    """
    found = [_DATE.fullmatch(cell) for cell in cells]
    dates = [each for each in found if each is not None]
    if not dates or (every and len(dates) < len(cells)):
        return None
    open_ones = [each for each in dates if each["mark"] in ("/", "-")]
    if day_first is None:
        day_first = any(int(each["first"]) > MONTHS for each in open_ones)
    written = [
        None if each is None else _iso(each, day_first=day_first or each["mark"] == ".")
        for each in found
    ]
    if every and None in written:
        return None
    return written, day_first if open_ones else None


def _iso(found: re.Match[str], *, day_first: bool) -> str | None:
    year, month, day = found["year"], found["month"], found["day"]
    if found["mark"]:
        year, month, day = found["last"], found["first"], found["second"]
        if day_first:
            month, day = day, month
    try:
        iso = date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None
    hours, _, rest = (found["time"] or "").partition(":")
    return f"{iso} {hours:0>2}:{rest}" if rest else iso
