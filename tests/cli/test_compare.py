from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from unitail.cli import main
from unitail.errors import UserError


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return results of three learners in two groups at two numbers of shots."""
    cases = [
        (learner, group, shots, accuracy)
        for learner, accuracy in (("good", 0.8), ("bad", 0.5))
        for group in ("images", "text")
        for shots in (1, 5)
    ]
    frames = [
        pd.DataFrame(
            {
                "learner": learner,
                "group": group,
                "encoder": "net",
                "data_set": f"set of {group}",
                "protocol": f"5-way {shots}-shot",
                "shots": shots,
                "hash": np.arange(10, dtype=np.uint64),
                "accuracy": np.float32(accuracy),
            }
        )
        for learner, group, shots, accuracy in (*cases, ("alone", "audio", 1, 0.5))
    ]
    rows = pd.concat(frames).astype({"learner": "category", "group": "category"})
    rows.to_parquet(tmp_path / "rows.parquet")
    return tmp_path


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(main.app, ["compare", *(str(each) for each in arguments)])


def test_each_group_has_a_sentence(results: Path) -> None:
    result = _run(results, "bad", "good")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == (
        "5-way 1-shot, images: good is better than bad by 30.0 points (95 % interval 30.0 to 30.0;"
        " 10 pairs of episodes on net/set of images)."
    )
    assert [line.split(":")[0] for line in lines] == [
        f"5-way {shots}-shot, {group}"
        for shots in (1, 5)
        for group in ("images", "text", "all groups")
    ]


def test_groups_and_shots_can_be_chosen(results: Path) -> None:
    result = _run(results, "good", "bad", "--group", "text", "--shots", 5)
    assert [line.split(":")[0] for line in result.output.splitlines()] == ["5-way 5-shot, text"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["good", "nobody"], "no answers of such a learner: got nobody; allowed: good, bad, alone"),
        (["good", "alone"], "good and alone have no episode in common: got 40 and 10 answered"),
        (["good", "bad", "--group", "taste"], "no rows of such group: got taste; allowed: images;"),
        (["good", "bad", "--shots", "3"], "no rows of such shots: got 3; allowed: 1; 5"),
    ],
)
def test_mistakes_are_reported(results: Path, arguments: list[str], message: str) -> None:
    result = _run(results, *arguments)
    assert isinstance(result.exception, UserError), result.output
    with pytest.raises(UserError, match=message):
        raise result.exception


def test_a_folder_without_results_is_reported(tmp_path: Path) -> None:
    result = _run(tmp_path, "good", "bad")
    assert "holds no results of a benchmark" in str(result.exception)
