"""What README and docs quote is what the stored rows say."""

import runpy
from pathlib import Path

import pandas
import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "bench" / "what_to_expect.py"))


def test_the_stored_table_is_that_of_the_stored_rows() -> None:
    stored = (ROOT / "results" / "what_to_expect.md").read_text()
    command = "python bench/what_to_expect.py --out results/what_to_expect.md"
    rows = SCRIPT["read_rows"]([ROOT / path for path in SCRIPT["ROWS"]])
    assert SCRIPT["report"](rows, command) == stored


def rows_of(learner: str, accuracies: dict[str, float], encoder: str = "a") -> pandas.DataFrame:
    return pandas.DataFrame(
        [
            {"learner": learner, "group": "text", "encoder": encoder, "data_set": name, "shots": 1}
            | {"episode": episode, "hash": episode, "accuracy": accuracy}
            for name, accuracy in accuracies.items()
            for episode in range(4)
        ]
    )


def test_a_data_set_counts_once_whatever_its_encoders() -> None:
    """Differences are 10, 20 and (0 + 60) / 2 points: mean 20, Student's interval over three."""
    anchor = [rows_of(SCRIPT["ANCHOR"], dict.fromkeys("xyz", 0.3), encoder) for encoder in "ab"]
    own = rows_of("unitail", {"x": 0.4, "y": 0.5, "z": 0.3})
    other = rows_of("unitail", {"z": 0.9}, "b")
    means = SCRIPT["means_by_data_set"](pandas.concat([*anchor, own, other]))
    half_width = pytest.approx(4.303 * 10 / 3**0.5, abs=0.05)
    mean, width = SCRIPT["cell"](means, "unitail", "text", 1).split(" ± ")
    assert (mean, float(width)) == ("+20.0", half_width)
    assert SCRIPT["cell"](means, SCRIPT["ANCHOR"], "text", 1) == "30.0 %"


def test_only_episodes_that_all_answered_are_compared(tmp_path: Path) -> None:
    paths = []
    for number, learner in enumerate(SCRIPT["LABELS"]):
        rows = rows_of(learner, {"x": 0.5, SCRIPT["CHOSEN_ON"]: 0.5})
        paths.append(tmp_path / f"{number}.parquet")
        (rows if number else rows.query("episode < 3")).to_parquet(paths[-1])
    kept = SCRIPT["read_rows"](paths)
    assert set(kept["data_set"]) == {"x"}
    assert set(kept["episode"]) == {0, 1, 2}


def test_other_episodes_are_recognised_by_hashes_or_by_answers() -> None:
    same = SCRIPT["same_episodes"]
    first = rows_of("a", {"x": 0.5, "y": 0.25})
    assert same(first, rows_of("b", {"x": 0.1, "y": 0.2}))
    reordered = first.assign(hash=first["hash"] + 10)
    assert same(first, reordered)
    assert not same(first, reordered.assign(learner="b"))
    assert not same(first, reordered.assign(accuracy=0.5))
