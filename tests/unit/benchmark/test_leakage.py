from pathlib import Path
from typing import Any

import pytest

from helpers.known_learners import write_blobs
from helpers.short_runs import short_recipe
from unitail.banks.splits import split_classes
from unitail.benchmark.leakage import check_not_trained_on
from unitail.benchmark.suites import BenchTable
from unitail.errors import InvalidCheckpoint, Leakage
from unitail.training.run_folder import RunFolder


def _run(folder: Path, *, seed: int = 0, data: tuple[str, ...] = (), **choice: Any) -> Path:  # noqa: ANN401
    """Leave a run folder behind that was trained on these banks."""
    banks = {"banks": ["net/*"], "held_out_from": ["seen"], **choice}
    training = {"steps": 1, "seed": seed}
    recipe = short_recipe(sources={"banks": banks}, training=training) if data else short_recipe()
    run = RunFolder(folder)
    run.claim(recipe, {f"net/{name}": "hash" for name in data})
    run.release()
    return folder


def _tables(root: Path) -> tuple[BenchTable, BenchTable, BenchTable]:
    """Return held-out classes of a data set, all of it in other features, and another one."""
    seen = write_blobs(root, "seen", encoder="net", classes=20)
    other_features = write_blobs(root, "seen", encoder="other", classes=20)
    unseen = write_blobs(root, "unseen", encoder="net")
    _, held_out = split_classes(seen, 0.2, 0)
    return (
        BenchTable(group="in-domain", bank=seen, table=held_out),
        BenchTable(group="encoder", bank=other_features, table=other_features),
        BenchTable(group="domain", bank=unseen, table=unseen),
    )


def test_held_out_classes_and_other_data_sets_are_fine(tmp_path: Path) -> None:
    held_out, _, unseen = _tables(tmp_path)
    check_not_trained_on(_run(tmp_path / "run", data=("seen",)), [held_out, unseen])
    check_not_trained_on(_run(tmp_path / "synthetic"), [held_out, unseen])


def test_classes_that_were_trained_on_are_refused_in_any_features(tmp_path: Path) -> None:
    _, other_features, _ = _tables(tmp_path)
    run = _run(tmp_path / "run", data=("seen",))
    with pytest.raises(
        Leakage, match=r"run was trained on classes of other/seen.*got 16 in common"
    ):
        check_not_trained_on(run, [other_features])


@pytest.mark.parametrize("changes", [{"seed": 1}, {"held_out": 0.1}])
def test_another_split_is_refused(tmp_path: Path, changes: dict[str, float]) -> None:
    held_out, _, _ = _tables(tmp_path)
    with pytest.raises(Leakage, match=r"trained on classes of net/seen.*`seed` = 0"):
        check_not_trained_on(_run(tmp_path / "run", data=("seen",), **changes), [held_out])


def test_a_data_set_that_is_trained_on_as_a_whole_is_refused(tmp_path: Path) -> None:
    _, _, unseen = _tables(tmp_path)
    with pytest.raises(Leakage, match=r"net/unseen, which is to test it: got 6 in common: class 0"):
        check_not_trained_on(_run(tmp_path / "run", data=("seen", "unseen")), [unseen])
    weights = {"unseen": 0.0}
    run = _run(tmp_path / "zero", data=("seen", "unseen"), data_set_weights=weights)
    check_not_trained_on(run, [unseen])


def test_a_model_without_a_recipe_cannot_be_checked(tmp_path: Path) -> None:
    tables = _tables(tmp_path)
    check_not_trained_on(tmp_path, tables)
    (tmp_path / "recipe.json").write_text("{}")
    with pytest.raises(InvalidCheckpoint, match="does not say what the model was trained on"):
        check_not_trained_on(tmp_path, tables)
