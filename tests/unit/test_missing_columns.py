import pytest

from unitail.missing_columns import (
    MAX_NAMED_COLUMNS,
    lacks_columns,
    list_columns,
    no_item_column,
    no_label_column,
)


def test_columns_that_the_examples_taught() -> None:
    assert str(lacks_columns(["b", "c"], ["a", "b", "c"])) == (
        "the table lacks columns that the examples have: got no 'b', 'c'; allowed: all of 'a', 'b',"
        " 'c'. Add the columns, with empty cells, or leave them out of the examples, too: --column"
        " b=skip, in Python encoder={'b': 'skip'}."
    )


@pytest.mark.parametrize(
    ("columns", "likely"),
    [
        (["text", "Genre "], "Genre "),  # called so, but for case and spaces
        (["kind", "genres"], "genres"),  # called nearly so
        (["text", "Class"], "Class"),  # as labels often are
        (["text", "size"], "NAME"),
    ],
)
def test_labels_and_where_they_may_be(columns: list[str], likely: str) -> None:
    assert str(no_label_column("t.csv", columns, "GENRE")) == (
        f"t.csv has no column of labels named 'GENRE': got {columns[0]!r}, {columns[1]!r}; allowed:"
        f" a table with such a column. Name the column that holds the labels: --label-column"
        f" {likely}."
    )


def test_items() -> None:
    assert str(no_item_column(["a", "b"], "photo")) == (
        "a table has no column 'photo' to take its items from: got 'a', 'b'; allowed: the column"
        " that was named, or that the examples are in. Rename it, or name another:"
        " --content-column COLUMN, --column NAME=KIND."
    )


def test_a_wide_table_is_not_listed_in_full() -> None:
    assert list_columns(range(MAX_NAMED_COLUMNS + 5)).endswith("19 and 5 more")
