import pytest

from unitail.inputs.cells import as_meant, harmless


@pytest.mark.parametrize("cell", ["=1+1", "@x", "-2+3", "\t=1", "+cmd|x", "=", "=a\nb"])
def test_formulas_are_text_and_mean_the_same(cell: str) -> None:
    assert harmless(cell) == f"'{cell}"
    assert as_meant(f"'{cell}") == cell


@pytest.mark.parametrize("cell", ["-1", "+.5e3", "a=b", "'quoted'", "'", "", 3, None])
def test_other_cells_are_left_alone(cell: object) -> None:
    assert harmless(cell) == cell
    if isinstance(cell, str):
        assert as_meant(cell) == cell
