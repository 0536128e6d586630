from unitail.benchmark.markdown import table


def test_a_table_is_aligned() -> None:
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"
