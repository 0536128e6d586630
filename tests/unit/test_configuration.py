import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from unitail.configuration import (
    from_table,
    parse_json,
    parse_toml,
    require_at_least,
    take_words,
    to_table,
)
from unitail.errors import InvalidConfig, require


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, kw_only=True)
class Paint:
    litres: int
    price: float = 1.0
    colour: Colour = Colour.RED
    shades: tuple[float, ...] = ()
    label: str | None = None
    matt: bool = False


FULL = Paint(litres=2, price=3.5, colour=Colour.BLUE, shades=(0.5, 1.0), label="sky", matt=True)


@pytest.mark.parametrize("paint", [FULL, Paint(litres=1)])
def test_table_round_trip_through_json(paint: Paint) -> None:
    table = json.loads(json.dumps(to_table(paint)))

    assert from_table(Paint, table, "paint") == paint


def test_enum_is_restored_as_a_member() -> None:
    paint = from_table(Paint, {"litres": 1, "colour": "blue"}, "paint")

    assert paint.colour is Colour.BLUE


def test_whole_numbers_become_floats_where_floats_are_meant() -> None:
    paint = from_table(Paint, {"litres": 1, "price": 3, "shades": [1, 2.5]}, "paint")

    assert (type(paint.price), paint.shades) == (float, (1.0, 2.5))
    assert all(type(shade) is float for shade in paint.shades)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"litres": 1, "litre": 2},
            r"unknown key in \[paint\]: got litre; allowed: litres, price, colour",
        ),
        ({"price": 1.0}, r"missing key in \[paint\]: got price; allowed: at least litres"),
        ({}, r"missing key in \[paint\]: got no keys; allowed: at least litres"),
        ({"litres": "2"}, r"paint\.litres has the wrong type: got '2'; allowed: int"),
        ({"litres": True}, r"paint\.litres has the wrong type: got True; allowed: int"),
        ({"litres": 2.0}, r"paint\.litres has the wrong type: got 2\.0; allowed: int"),
        ({"litres": None}, r"paint\.litres has the wrong type: got None; allowed: int"),
        (
            {"litres": 1, "price": True},
            r"paint\.price has the wrong type: got True; allowed: float",
        ),
        (
            {"litres": 1, "colour": "green"},
            r"paint\.colour is unknown: got green; allowed: red, blue\. Correct the value",
        ),
        ({"litres": 1, "shades": [1.0, "x"]}, r"paint\.shades has the wrong type: got 'x'"),
        ({"litres": 1, "shades": 1.0}, r"paint\.shades has the wrong type: got 1\.0"),
        ({"litres": 1, "label": 3}, r"paint\.label has the wrong type: got 3; allowed: str"),
    ],
)
def test_wrong_tables_are_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        from_table(Paint, table, "paint")


def test_require() -> None:
    require(True, "steps", got=1, allowed="1 or more")
    with pytest.raises(InvalidConfig, match="steps is out of range: got 0; allowed: 1 or more"):
        require(False, "steps", got=0, allowed="1 or more")


@dataclass(frozen=True)
class Shelf:
    paints: tuple[Paint, ...] = ()


def test_tables_in_tables_are_configurations() -> None:
    shelf = from_table(Shelf, {"paints": [{"litres": 2}, Paint(litres=3)]}, "shelf")
    assert [paint.litres for paint in shelf.paints] == [2, 3]
    with pytest.raises(InvalidConfig, match=r"missing key in \[shelf\.paints\]: got price"):
        from_table(Shelf, {"paints": [{"price": 1.0}]}, "shelf")
    with pytest.raises(InvalidConfig, match=r"shelf\.paints has the wrong type: got 3; allowed: a"):
        from_table(Shelf, {"paints": [3]}, "shelf")


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_json, '{"a":' * 100_000), (parse_toml, "a = " + "[" * 100_000)],
)
def test_endless_nesting_is_an_error_like_any_other(
    parse: Callable[[str], object], text: str
) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse(text)


def test_fields_have_a_minimum() -> None:
    require_at_least(2, Paint(litres=2), "litres")
    with pytest.raises(InvalidConfig, match="litres is out of range: got 2; allowed: 3 or more"):
        require_at_least(3, Paint(litres=2), "litres")


def test_plain_words_will_do_for_fields_that_name_a_way() -> None:
    paint = Paint(litres=2, colour="red")  # type: ignore[arg-type]
    take_words(paint, colour=Colour)
    assert paint.colour is Colour.RED
    with pytest.raises(InvalidConfig, match="colour is unknown: got mauve; allowed: red"):
        take_words(Paint(litres=2, colour="mauve"), colour=Colour)  # type: ignore[arg-type]
