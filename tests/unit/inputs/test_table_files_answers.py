import pandas as pd

from unitail.inputs.table_files import ANSWER_COLUMNS, prefix_beside, without_answers


def _columns(*names: str) -> list[str]:
    return list(without_answers(pd.DataFrame([range(len(names))], columns=list(names))).columns)


def test_only_what_was_added_is_left_out() -> None:
    added = (*ANSWER_COLUMNS, "row", "source", "answer_2", "probability_2")
    assert _columns("id", *added, "notes") == ["id", "notes"]
    prefixed = [f"unitail_{name}" for name in added]
    assert _columns("answer", "row", *prefixed) == ["answer", "row"]


def test_columns_of_the_user_with_such_names_stay() -> None:
    assert _columns("answer", "probability", "row") == ["answer", "probability", "row"]
    mine = [f"my_{name}" for name in ANSWER_COLUMNS]
    assert _columns(*mine) == mine
    assert _columns(*reversed(ANSWER_COLUMNS)) == list(reversed(ANSWER_COLUMNS))


def test_names_never_collide() -> None:
    assert prefix_beside(["a"], ["answer"]) == ""
    assert prefix_beside(["answer"], ["answer"]) == "unitail_"
    assert prefix_beside(["answer", "unitail_set"], ["answer", "set"]) == "unitail_unitail_"
