import pytest

from unitail.inputs.cells import read_dates


@pytest.mark.parametrize(
    ("cells", "written", "day_first"),
    [
        (["2021-02-03", "2021/2/4"], ["2021-02-03", "2021-02-04"], None),
        (["3.2.2021", "14.12.2020"], ["2021-02-03", "2020-12-14"], None),
        (["02/03/2021", "02/14/2021"], ["2021-02-03", "2021-02-14"], False),
        (["02/03/2021", "14/02/2021"], ["2021-03-02", "2021-02-14"], True),
        (["02-03-2021"], ["2021-02-03"], False),
        (["3.2.2021", "2021-02-04", "13/2/2021"], ["2021-02-03", "2021-02-04", "2021-02-13"], True),
        (
            ["3.2.2021 9:05", "4.2.2021, 10:15:30"],
            ["2021-02-03 09:05", "2021-02-04 10:15:30"],
            None,
        ),
    ],
)
def test_how_people_write_dates(cells: list[str], written: list[str], day_first: bool) -> None:
    assert read_dates(cells) == (written, day_first)


def test_the_order_may_be_known() -> None:
    assert read_dates(["02/03/2021"], day_first=True) == (["2021-03-02"], True)
    assert read_dates(["02.03.2021"], day_first=False) == (["2021-03-02"], None)


@pytest.mark.parametrize(
    "cells",
    [
        [],
        ["12"],
        ["1.2.3"],
        ["31.02.2021"],
        ["13/13/2021"],
        ["13/2/2021", "2/13/2021"],
        ["1/2-2021"],
    ],
)
def test_what_is_no_date(cells: list[str]) -> None:
    assert read_dates(cells) is None
