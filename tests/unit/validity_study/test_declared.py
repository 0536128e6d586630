from pathlib import Path

import numpy as np
import pytest

from unitail.banks.table import FeatureTable
from unitail.errors import InvalidConfig, UserError
from unitail.tasks.arrays import ArrayTask
from unitail.validity_study.declared import (
    BUILT_IN,
    Declaration,
    DeclaredBank,
    SyntheticChoice,
    as_declared,
    bank_task,
    declared_tasks,
    read_declaration,
)

FILE = """
shots = [1, 4]
[[synthetic]]
width = 3
ways = 4
separation = 1.5
[[banks]]
bank = "some/set"
ways = 2
group = "text"
"""


def table(sizes: tuple[int, ...]) -> FeatureTable:
    indices = np.repeat(np.arange(len(sizes)), sizes)
    features = np.stack([indices, np.arange(len(indices))], axis=1).astype(np.float32)
    names = tuple(f"class {number}" for number in range(len(sizes)))
    return FeatureTable(
        name="set", encoder="some", features=features, class_indices=indices, class_names=names
    )


def test_a_file_is_read_and_its_tasks_are_drawn_by_the_seed(tmp_path: Path) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(FILE)
    declaration = read_declaration(path)
    assert declaration == Declaration(
        shots=(1, 4),
        synthetic=(SyntheticChoice(width=3, ways=4, separation=1.5),),
        banks=(DeclaredBank(bank="some/set", ways=2, group="text"),),
    )
    declared = declared_tasks(declaration)
    (only,) = declared.tasks
    assert (only.task.feature_dim, only.task.ways, only.group) == (3, 4, "synthetic")
    assert declared.missing == ("some/set, 2 classes",)

    def means(seed: int) -> list[float]:
        task = declared_tasks(declaration, seed=seed).tasks[0].task
        return task.means.flatten().tolist()  # type: ignore[attr-defined, no-any-return]

    assert means(0) == means(0) != means(1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[synthetic]]\nwidth = 3\n", "missing key in"),
        ("[[synthetic]]\nwidth = 0\nways = 2\n", "width is out of range"),
        ("[[banks]]\nbank = 'a/b'\nways = 1\n", "ways is out of range"),
        ("banks = 3\n", "banks is not a list of tables"),
        ("colour = 3\n", "unknown key in"),
        ("shots = \n", "is not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(text)
    with pytest.raises(InvalidConfig, match=message):
        read_declaration(path)


def test_a_missing_file_and_an_empty_declaration_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="the tasks cannot be read"):
        read_declaration(tmp_path / "none.toml")
    with pytest.raises(UserError, match="no task of the declaration is available"):
        declared_tasks(Declaration())


def test_the_built_in_tasks_have_the_widths_and_numbers_of_classes_that_are_promised() -> None:
    assert {each.width for each in BUILT_IN.synthetic} >= {2, 2048}
    assert {each.ways for each in BUILT_IN.synthetic} >= {2, 100}
    assert {each.group for each in BUILT_IN.banks} == {"images", "text", "audio"}
    assert BUILT_IN.tables


def test_a_bank_task_has_whole_classes_with_rows_enough() -> None:
    source = table((9, 3, 12, 8, 20))
    task = bank_task(source, DeclaredBank(bank="some/set", ways=3))
    assert task is not None
    kept = [task.features[task._order, 0].unique_consecutive().numel(), task.ways]
    assert kept == [3, 3]
    assert 1.0 not in task.features[:, 0]  # the class of 3 rows
    sizes = {0.0: 9, 2.0: 12, 3.0: 8, 4.0: 20}
    for value in task.features[:, 0].unique().tolist():
        assert int((task.features[:, 0] == value).sum()) == sizes[value]
    assert bank_task(source, DeclaredBank(bank="some/set", ways=5)) is None


def test_plain_tasks_take_part() -> None:
    task = ArrayTask(features=np.eye(4), class_indices=[0, 0, 1, 1], name="mine")
    (declared,) = as_declared([task])
    assert (declared.task, declared.group) == (task, "tasks")
    assert as_declared([declared]) == (declared,)
