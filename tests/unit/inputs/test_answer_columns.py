import pandas as pd
import pytest

from unitail.inputs.answer_columns import FIXED, as_meant, harmless, prefix_beside, without_answers


def _columns(*names: str) -> list[str]:
    return list(without_answers(pd.DataFrame([range(len(names))], columns=list(names))).columns)


def test_only_what_was_added_is_left_out() -> None:
    added = (*FIXED, "row", "source", "answer_2", "probability_2")
    assert _columns("id", *added, "notes") == ["id", "notes"]
    prefixed = [f"unitail_{name}" for name in added]
    assert _columns("answer", "row", *prefixed) == ["answer", "row"]


def test_columns_of_the_user_with_such_names_stay() -> None:
    assert _columns("answer", "probability", "row") == ["answer", "probability", "row"]
    mine = [f"my_{name}" for name in FIXED]
    assert _columns(*mine) == mine
    assert _columns(*reversed(FIXED)) == list(reversed(FIXED))


def test_names_never_collide() -> None:
    assert prefix_beside(["a"], ["answer"]) == ""
    assert prefix_beside(["answer"], ["answer"]) == "unitail_"
    assert prefix_beside(["answer", "unitail_set"], ["answer", "set"]) == "unitail_unitail_"


@pytest.mark.parametrize("cell", ["=1+1", "@x", "-2+3", "\t=1", "+cmd|x", "=", "=a\nb"])
def test_formulas_are_text_and_mean_the_same(cell: str) -> None:
    assert harmless(cell) == f"'{cell}"
    assert as_meant(f"'{cell}") == cell


@pytest.mark.parametrize("cell", ["-1", "+.5e3", "a=b", "'quoted'", "'", "", 3, None])
def test_other_cells_are_left_alone(cell: object) -> None:
    assert harmless(cell) == cell
    if isinstance(cell, str):
        assert as_meant(cell) == cell
