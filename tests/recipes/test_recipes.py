"""The recipes of the project: all can be read, and hold what their descriptions state."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from unitail.configuration import to_table
from unitail.learners.pretrained import shipped_folder
from unitail.training.recipe import Recipe, read_recipe, recipe_from_record
from unitail.training.schedules import learning_rate

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").rglob("*.toml"))
EQUAL_TIME = sorted((ROOT / "recipes" / "equal_time").glob("*.toml"))
PAPER = ROOT / "recipes" / "paper.toml"
DEFAULT = ROOT / "recipes" / "default"
STARTED = ("whole", "images")
"""Recipes of the default model that start from another's weights."""

PAPER_STATES: dict[str, dict[str, Any]] = {
    "model": {
        "hidden_dim": 1536,
        "layers": 16,
        "heads": 16,
        "mlp_dim": 3072,
        "projected_dim": 1280,
        "projection": "permutation",
        "label_dim": 256,
        "dictionary_size": 100,
        "visibility": "joint",
    },
    "episodes": {"ways": (2, 5), "query_shares": "balanced", "spread": "uniform"},
    "training": {
        "optimiser": "adam",
        "weight_decay": 0.0,
        "beta2": 0.999,
        "learning_rate": 3e-5,
        "schedule": "cyclic",
    },
}
"""Appendix D (table of the architecture) and E (training); joint is section 4's one sequence."""


def _ids(path: Path) -> str:
    return str(path.relative_to(ROOT / "recipes"))


def test_the_recipes_are_found_wherever_the_tests_run() -> None:
    names = {_ids(path) for path in RECIPES}
    assert {"default/whole.toml", "paper.toml", "tiny.toml", "equal_time/tail_joint.toml"} <= names
    assert len(EQUAL_TIME) == 5


@pytest.mark.parametrize("path", RECIPES, ids=_ids)
def test_a_recipe_can_be_read_and_its_header_states_how_to_run_it(path: Path) -> None:
    assert isinstance(read_recipe(path), Recipe)
    header = path.read_text().split("\n[", 1)[0]
    banks = " --banks BANKS" if "[sources.banks]" in path.read_text() else ""
    command = f"unitail train recipes/{_ids(path)}{banks}"
    if path.parent == DEFAULT and path.stem in STARTED:
        command += " --start RUN/model"
    if path.parent == DEFAULT and path.stem.endswith("weighing"):
        command = (
            f"python tools/fit_weighing.py recipes/{_ids(path)} --blocks BLOCKS{banks} --out RUN"
        )
    assert f"# Command:  {command}\n" in header
    assert "# Expected: " in header
    assert "# Cost: " in header


@pytest.mark.parametrize("path", RECIPES, ids=_ids)
def test_a_recipe_for_tail_states_who_sees_whom(path: Path) -> None:
    model = tomllib.loads(path.read_text())["model"]
    if model.get("learner", "tail") == "tail":
        isolated = path.name in ("tiny.toml", "tiny_imagenet.toml", "wide_features.toml") or (
            "isolated" in path.name
        )
        usual = "isolated" if isolated else "joint"
        assert model["visibility"] == ("causal" if path.stem == "causal" else usual)


@pytest.mark.parametrize("part", PAPER_STATES)
def test_the_papers_recipe_has_the_papers_values(part: str) -> None:
    values = to_table(getattr(read_recipe(PAPER), part))
    assert {key: values[key] for key in PAPER_STATES[part]} == PAPER_STATES[part]


def test_the_papers_recipe_weighs_data_sets_by_their_classes_and_grows_the_dictionary() -> None:
    recipe = read_recipe(PAPER)
    [banks] = to_table(recipe)["sources"]
    assert (banks["data_set_weights"], banks["disguised"]) == ({}, 0.0)
    assert recipe.training.dictionary_growth > 0


def test_the_papers_circle_turns_at_a_tenth_and_tops_at_the_papers_rate() -> None:
    training = read_recipe(PAPER).training
    rates = [learning_rate(step, training) for step in range(training.cycle_steps)]
    assert min(rates) == rates[0] == pytest.approx(3e-6)
    assert max(rates) == rates[training.cycle_steps // 2] == pytest.approx(3e-5)


def test_what_is_not_the_papers_is_marked_as_ours() -> None:
    text = PAPER.read_text()
    written = {
        (part, key)
        for part, table in tomllib.loads(text).items()
        for key in (table["banks"] if part == "sources" else table)
    }
    marked = set(re.findall(r"^(\w+) = .*# ours", text, flags=re.MULTILINE))
    stated = {(part, key) for part, values in PAPER_STATES.items() for key in values}
    theirs = stated | {("model", "preset")}
    assert {key for part, key in written if (part, key) not in theirs} == marked
    assert "clip_norm" in marked


def test_our_own_choices_are_listed_beside_the_notation() -> None:
    text = (ROOT / "docs" / "notation.md").read_text()
    ours = text.split("## Ours, where the paper is silent or differs", 1)[1]
    for words in ("K active slots", "mean over the queries", "once for a batch", "`clip_norm`"):
        assert words in ours
    assert "`CYCLE_FLOOR`" in ours


@pytest.mark.parametrize(
    ("name", "stem"), [("default", "default/whole"), ("tail", "tail_5w"), ("tail-50w", "tail_50w")]
)
def test_a_recipe_is_what_the_shipped_weights_were_trained_by(name: str, stem: str) -> None:
    record = json.loads((shipped_folder(name) / "recipe.json").read_text())
    # Read, not compared as text: what was added to recipes since has its default there.
    shipped = recipe_from_record(record["learner"], record["recipe"])
    assert read_recipe(ROOT / "recipes" / f"{stem}.toml") == shipped


def test_the_shipped_default_started_from_what_its_stage_before_made() -> None:
    record = json.loads((shipped_folder("default") / "recipe.json").read_text())["start"]["record"]
    shipped = recipe_from_record(record["learner"], record["recipe"])
    assert read_recipe(DEFAULT / "weighing.toml") == shipped


@pytest.mark.parametrize(
    ("stem", "all_sets"), [("images", "whole"), ("images_weighing", "weighing")]
)
def test_images_alone_differ_in_their_sets_alone(stem: str, all_sets: str) -> None:
    own, whole = (
        tomllib.loads((DEFAULT / f"{name}.toml").read_text()) for name in (stem, all_sets)
    )
    banks, more = (table["sources"].pop("banks") for table in (own, whole))
    assert own == whole
    assert set(banks["banks"]) < set(more["banks"])
    texts_and_sounds = ("wordnet", "debian", "espeak", "gm_")
    for key in ("banks", "held_out_from", "data_set_weights"):
        rest = [
            each for each in more[key] if not each.removeprefix("*/").startswith(texts_and_sounds)
        ]
        assert list(banks[key]) == rest
    assert banks["disguised"] == more["disguised"]


@pytest.mark.parametrize(("stem", "ways", "slots"), [("tail_5w", 5, 100), ("tail_50w", 50, 256)])
def test_the_shipped_tails_have_the_papers_classes_slots_and_visibility(
    stem: str, ways: int, slots: int
) -> None:
    recipe = read_recipe(ROOT / "recipes" / f"{stem}.toml")
    assert (recipe.episodes.ways, recipe.model.max_ways) == ((2, ways), slots)
    assert to_table(recipe.model)["visibility"] == "joint"
    assert recipe.training.dictionary_growth > 0
    tested = {"cub200", "rsscn7", "dtd10", "brain_mri4", "chest_xray3"}
    [banks] = to_table(recipe)["sources"]
    names = {name.split("/")[1] for name in banks["banks"]}
    assert not names & tested
    assert not any(name.startswith("pacs") for name in names)


@pytest.mark.parametrize("path", EQUAL_TIME, ids=_ids)
def test_runs_of_equal_time_differ_in_the_learner_alone(path: Path) -> None:
    recipe, first = read_recipe(path), read_recipe(EQUAL_TIME[0])
    assert (recipe.episodes.ways, recipe.episodes.shots) == ((2, 5), (1, 5))
    assert recipe.episodes.queries == first.episodes.queries
    assert recipe.sources == first.sources
    for key in ("episodes", "ways", "shots", "queries"):
        assert getattr(recipe.validation, key) == getattr(first.validation, key)
    match = re.search(r"\((\d+) ms a step\)", path.read_text())
    assert match is not None
    assert recipe.training.steps * int(match[1]) / 1000 == pytest.approx(100, rel=0.03)


ABLATED = {
    "dense": {("model", "projection")},
    "no_projection": {("model", "projection")},
    "causal": {("model", "visibility")},
    "isolated": {("model", "visibility")},
    "no_growth": {("training", "dictionary_growth")},
    "mixed": {("sources", "banks")},
    "other_encoder": {("sources", "banks")},
}


@pytest.mark.parametrize("stem", ABLATED)
def test_an_ablation_differs_from_the_base_in_one_thing(stem: str) -> None:
    tables = [
        tomllib.loads((ROOT / "recipes" / "ablations" / f"{name}.toml").read_text())
        for name in ("base", stem)
    ]
    base, own = (
        {
            (part, key): value
            for part, table in each.items()
            for key, value in (table["banks"] if part == "sources" else table).items()
        }
        for each in tables
    )
    assert {key for key in {*base, *own} if base.get(key) != own.get(key)} == ABLATED[stem]
