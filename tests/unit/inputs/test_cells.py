import json
from datetime import timedelta

import numpy as np
import pandas
import pytest

from unitail.inputs.cells import (
    as_features,
    as_features_before,
    escape_formula,
    formats_of,
    unescape_formula,
)


@pytest.mark.parametrize("cell", ["=1+1", "@x", "-2+3", "\t=1", "+cmd|x", "=", "=a\nb"])
def test_formulas_are_text_and_mean_the_same(cell: str) -> None:
    assert escape_formula(cell) == f"'{cell}"
    assert unescape_formula(f"'{cell}") == cell


@pytest.mark.parametrize("cell", ["-1", "+.5e3", "a=b", "'quoted'", "'", "", 3, None])
def test_other_cells_are_left_alone(cell: object) -> None:
    assert escape_formula(cell) == cell
    if isinstance(cell, str):
        assert unescape_formula(cell) == cell


def test_commas_are_what_they_are_among_the_examples() -> None:
    examples, _ = as_features(pandas.DataFrame({"mass": ["1,5", "2,5"], "count": ["5", "7"]}))
    asked, _ = as_features(pandas.DataFrame({"mass": ["3"], "count": ["7,125"]}), examples)
    assert asked["count"].tolist() == [7.125]  # thousands, if alone


def test_one_cell_that_is_no_date_costs_no_other() -> None:
    days = ["13/02/2021", "02/03/2021"]
    examples, _ = as_features(pandas.DataFrame({"day": days}))
    asked, notes = as_features(pandas.DataFrame({"day": ["04/03/2021", "soon", None]}), examples)
    assert asked["day"].tolist() == ["2021-03-04", "soon", None]
    assert notes == ["1 cell of 'day' without a date ('soon')"]
    points, _ = as_features(pandas.DataFrame({"day": ["13.02.2021", "02.03.2021"]}))
    asked, notes = as_features(pandas.DataFrame({"day": ["4.3.2021", "31.2.2021"]}), points)
    assert asked["day"].tolist() == ["2021-03-04", "31.2.2021"]
    assert notes == ["1 cell of 'day' without a date ('31.2.2021')"]


def test_what_is_no_date_among_the_examples_stays_as_it_is_written() -> None:
    examples, _ = as_features(pandas.DataFrame({"day": ["13/02/2021", "soon"]}))
    asked, _ = as_features(pandas.DataFrame({"day": ["13/02/2021"]}), examples)
    assert asked["day"].tolist() == ["13/02/2021"]


def test_durations_are_seconds_unless_they_are_names_among_the_examples() -> None:
    spans = [timedelta(minutes=16, seconds=10), pandas.Timedelta("1 day 0.5 s"), None]
    frame = pandas.DataFrame({"span": spans}, dtype=object)
    examples, _ = as_features(frame)
    np.testing.assert_array_equal(examples["span"], [970, 86400.5, np.nan])
    names, _ = as_features(pandas.DataFrame({"span": ["0:16:10", "1:00:00"]}))
    assert as_features(frame, names)[0]["span"][0] == "0:16:10"


def test_columns_are_read_in_the_formats_of_before_and_new_ones_anew() -> None:
    columns = ["1,5", "2,5"], ["a", "b"], ["3.1.2021", "4.1.2021"], ["7 kg", "8 kg"]
    before = pandas.DataFrame(dict(zip(("comma", "name", "day", "unit"), columns, strict=True)))
    features, _ = as_features(before)
    formats = json.loads(json.dumps(formats_of(features)))
    after = pandas.DataFrame(
        {
            "new": ["1,234", "2,345", "3,456"],
            "unit": ["7 kg", "9 lb", "8 kg"],
            "comma": ["1,5", "2.5", "1,234"],
            "name": ["1", "2", "3"],
            "day": ["3.1.2021", "05.01.2021", "no day"],
        }
    )
    read, notes = as_features_before(after, formats)
    assert list(read) == list(after)
    np.testing.assert_array_equal(read["comma"], [1.5, np.nan, 1.234])
    np.testing.assert_array_equal(read["unit"], [7, np.nan, 8])
    assert read["name"].tolist() == ["1", "2", "3"]
    assert read["day"].tolist()[:2] == ["2021-01-03", "2021-01-05"]
    assert read["new"].tolist() == [1234, 2345, 3456]
    assert "1 cell of 'unit' without a number ('9 lb')" in notes
    assert formats_of(read)["comma"] == formats["comma"]
    alone, _ = as_features_before(before, {})
    pandas.testing.assert_frame_equal(alone, features)
    assert alone.attrs == features.attrs


def test_a_few_cells_that_make_a_column_of_numbers_one_of_categories_are_noted() -> None:
    cells = [str(number) for number in range(19)]
    _, [note] = as_features(pandas.DataFrame({"size": [*cells, "unknown"]}))
    assert note == (
        "'size' holds categories, because of 1 cell without a number ('unknown') among 20"
    )
    assert as_features(pandas.DataFrame({"size": [*cells[:8], "unknown"]}))[1] == []
    assert as_features(pandas.DataFrame({"size": [*cells, "n/a"]}))[1] == []
