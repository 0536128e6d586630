from pathlib import Path
from typing import Any

import pytest

from helpers.short_runs import TABLE, tables, write_recipe
from unitail.errors import InvalidConfig
from unitail.nn.episode_model import Visibility
from unitail.tasks.synthetic.gaussian import GaussianTasks
from unitail.tasks.synthetic.networks import RandomNetworkTasks
from unitail.training.recipe import BankChoice, read_recipe, recipe_from_table


def test_a_recipe_starts_from_a_preset_and_changes_it(tmp_path: Path) -> None:
    changes = {"model": {"visibility": "joint"}, "sources": {"random_networks": {"weight": 3}}}
    recipe = read_recipe(write_recipe(tmp_path / "recipe.toml", **changes))
    assert recipe.model.projected_dim == 16
    assert recipe.model.visibility is Visibility.JOINT
    assert recipe.episodes.ways == (2, 4)
    assert recipe.sources == (GaussianTasks(feature_dims=(8, 12)), RandomNetworkTasks())
    assert recipe.source_weights == (1.0, 3.0)


def test_banks_are_chosen_by_patterns() -> None:
    fields = {"banks": ["a/*"], "held_out_from": ["x"], "data_set_weights": {"y": 2}}
    recipe = recipe_from_table({**TABLE, "sources": {"banks": fields}}, "test")
    expected = BankChoice(banks=("a/*",), held_out_from=("x",), data_set_weights={"y": 2.0})
    assert recipe.sources == (expected,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training": {"stepz": 3}}, r"unknown key in \[training\]: got stepz; allowed: steps"),
        ({"training": {"steps": "3"}}, "training.steps has the wrong type: got '3'; allowed: int"),
        ({"model": {"visibility": "both"}}, "visibility is unknown: got both; allowed: isolated"),
        ({"model": {"preset": "huge"}}, "unknown preset: got huge"),
        ({"sources": {"dreams": {}}}, r"unknown source of tasks: got \[sources.dreams\]"),
        ({"sources": {"gaussian": {"weight": 0}}}, "sources.gaussian.weight is out of range"),
        ({"episodes": {"ways": [2, 7]}}, "more classes than the dictionary has slots: got 7"),
        ({"validation": {"ways": 7}}, "validation.ways asks for more classes than the dictionary"),
        ({"sources": {"gaussian": 3}}, r"sources.gaussian is not a table: got 3; allowed: a table"),
        ({"episodes": {"ways": 5}}, "episodes.ways has the wrong type: got 5; allowed: a list"),
        ({"training": {"compile": True}}, "a compiled network needs episodes of one shape"),
        ({"validation": {"episodes": 17}}, "allowed: a multiple of episodes.multiple, 8"),
    ],
)
def test_a_mistake_in_a_recipe_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        recipe_from_table(tables(**changes), "test")


def test_a_missing_part_is_named() -> None:
    table = {name: part for name, part in TABLE.items() if name != "episodes"}
    with pytest.raises(InvalidConfig, match=r"got \[model\], .*; allowed: \[model\], \[episodes\]"):
        recipe_from_table(table, "test")
    with pytest.raises(InvalidConfig, match="sources is out of range: got none"):
        recipe_from_table({**TABLE, "sources": {}}, "test")


@pytest.mark.parametrize("name", ["model", "sources"])
def test_a_part_that_is_no_table_is_named(name: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{name} is not a table: got 'tiny'"):
        recipe_from_table({**TABLE, name: "tiny"}, "test")


def test_a_file_that_is_no_recipe_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"none\.toml: No such file"):
        read_recipe(tmp_path / "none.toml")
    with pytest.raises(InvalidConfig, match="not valid TOML: got more than 16,777,216 bytes"):
        read_recipe(Path("/dev/zero"))
    (tmp_path / "bad.toml").write_text("[model")
    with pytest.raises(InvalidConfig, match="is not valid TOML"):
        read_recipe(tmp_path / "bad.toml")


def test_a_model_with_positions_may_be_filled_to_the_last_one() -> None:
    model = {"learner": "gpicl", "classes": 4, "positions": 9}  # 4 ways of 2 shots, and a query
    assert recipe_from_table(tables(model=model), "test").model.max_support == 8
    with pytest.raises(InvalidConfig, match="got up to 8; allowed: at most 7"):
        recipe_from_table(tables(model={**model, "positions": 8}), "test")


def test_tables_with_more_rows_than_a_model_reads_are_refused() -> None:
    model = {"learner": "gpicl", "classes": 10, "positions": 41}
    for shots, fits in (([1, 40], True), ([1, 41], False)):
        table = {**tables(model=model), "sources": {"random_tables": {"shots": shots}}}
        if fits:
            assert recipe_from_table(table, "test").source_weights == (1.0,)
            continue
        with pytest.raises(InvalidConfig, match=r"\[sources\.random_tables\] have more examples"):
            recipe_from_table(table, "test")


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_marks_and_line_ends_of_other_systems_are_read(newline: bytes, tmp_path: Path) -> None:
    whole = write_recipe(tmp_path / "a.toml").read_bytes()
    (tmp_path / "b.toml").write_bytes(b"\xef\xbb\xbf" + whole.replace(b"\n", newline))
    assert read_recipe(tmp_path / "b.toml") == read_recipe(tmp_path / "a.toml")
