import math
import time

import pytest

from unitail.inputs.cells import Style, read_number, style_of


@pytest.mark.parametrize(
    ("cells", "style", "numbers"),
    [
        (["1,234", "12"], Style(".", thousands=True), [1234, 12]),
        (["1,234.5", "1,234,567"], Style(".", thousands=True), [1234.5, 1234567]),
        (["1.234,5", "0,25", "7"], Style(","), [1234.5, 0.25, 7]),
        (["1 234", "1\N{NO-BREAK SPACE}234,5"], Style(","), [1234, 1234.5]),
        (["1'234.50", "-12"], Style("."), [1234.5, -12]),
        (["$5", "-$1,000", "$ -2", "($3)"], Style(".", "$", thousands=True), [5, -1000, -2, -3]),
        (["5,00 €", "12 €"], Style(",", "€"), [5, 12]),
        (["EUR 5", "EUR 1.5"], Style(".", "EUR"), [5, 1.5]),
        (["7.5%", "10 %"], Style(".", "%"), [7.5, 10]),
        (["100 km/h", "80km/h"], Style(".", "km/h"), [100, 80]),
        (["\N{MINUS SIGN}3 °C", "+4 °C"], Style(".", "°C"), [-3, 4]),
    ],
)
def test_how_people_write_numbers(cells: list[str], style: Style, numbers: list[float]) -> None:
    assert style_of(cells) == style
    assert [read_number(cell, style) for cell in cells] == numbers


@pytest.mark.parametrize(
    "cells",
    [
        ["$5", "€5"],
        ["3 kg", "3 lb"],
        ["1st", "2nd"],
        ["PK-1", "PK-2"],
        ["A1", "A2"],
        ["1.2.3", "1.2.4"],
        ["030 1234567", "0171 234"],
        ["12:30", "13:45"],
        ["1,5", "2.5"],
        ["0,123", "1.5"],
        ["2020-01-02"],
        ["5", "five"],
        [""],
        [],
    ],
)
def test_what_is_no_number_in_one_way_of_writing(cells: list[str]) -> None:
    assert style_of(cells) is None


def test_a_comma_that_may_be_either_is_what_the_others_are() -> None:
    assert style_of(["1,234"], prefer_commas=True) == Style(",")
    assert read_number("1,234", Style(",")) == 1.234
    assert style_of(["1,234", "5.5"], prefer_commas=True) == Style(".", thousands=True)


def test_other_units_than_those_of_the_examples_are_no_numbers() -> None:
    assert read_number("12", Style(".", "kg")) == 12
    for cell in ("12 lb", "$12", "1,5", "kg", "12 kg kg"):
        assert math.isnan(read_number(cell, Style(".", "kg"))), cell


def test_very_long_numbers_take_no_time() -> None:
    start = time.process_time()
    assert style_of([f"{'1' * 50_000},1"]) == Style(",")
    assert style_of([f"{'1' * 50_000}.1,1"]) is None
    assert time.process_time() - start < 5  # a minute, if digits were tried in all ways
