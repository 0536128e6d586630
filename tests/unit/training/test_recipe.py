from pathlib import Path

import pytest

from unitail.errors import InvalidConfig
from unitail.nn.visibility import Visibility
from unitail.training.recipe import read_recipe

GOOD = """
[model]
preset = "tiny"
visibility = "joint"
[tasks]
feature_dims = [8]
[training]
steps = 3
tokens_per_step = 100
ways = [2, 3]
shots = [1, 2]
queries = 2
learning_rate = 1e-3
"""


def recipe(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


def test_a_recipe_starts_from_a_preset_and_changes_it(tmp_path: Path) -> None:
    found = read_recipe(recipe(tmp_path, GOOD))
    assert found.model.projected_dim == 64
    assert found.model.visibility is Visibility.JOINT
    assert found.training.ways == (2, 3)
    assert found.tasks.feature_dims == (8,)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 3", "stepz = 3", r"unknown key in \[training\]: got stepz; allowed: steps"),
        ("steps = 3", 'steps = "3"', "training.steps has the wrong type: got '3'; allowed: int"),
        ('"joint"', '"both"', "visibility is unknown: got both; allowed: isolated, joint, causal"),
        ('"tiny"', '"huge"', "unknown preset: got huge"),
        ("[tasks]", "[data]", r"got \[model\], \[data\], \[training\]; allowed: \[model\]"),
        ("[tasks]", "[tasks", "is not valid TOML"),
        ("ways = [2, 3]", "ways = [2, 17]", "more classes than the dictionary has slots: got 17"),
    ],
)
def test_a_mistake_in_a_recipe_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        read_recipe(recipe(tmp_path, GOOD.replace(old, new)))


def test_a_missing_recipe_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"none\.toml: No such file"):
        read_recipe(tmp_path / "none.toml")


@pytest.mark.parametrize("path", sorted(Path("recipes").glob("*.toml")), ids=str)
def test_the_recipes_of_the_project_are_valid(path: Path) -> None:
    assert read_recipe(path).training.steps > 0
