"""A run whose training included classes of a test table is refused, and no other."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.known_learners import write_blobs
from helpers.short_runs import short_recipe
from unitail.banks.bank import FeatureBank
from unitail.banks.cross import CrossTable
from unitail.banks.splits import split_classes
from unitail.benchmark.leakage import check_not_trained_on, trained_classes
from unitail.benchmark.suites import BenchTable
from unitail.errors import Leakage
from unitail.training.recipe import BankChoice
from unitail.training.run_folder import RunRecord, Start


def _run(*banks: str, seed: int = 0, **choice: Any) -> RunRecord:  # noqa: ANN401
    """Return the record of a run that was trained on these banks."""
    chosen = {"banks": ["net/*"], "held_out_from": ["seen"], **choice}
    training = {"steps": 1, "seed": seed}
    recipe = short_recipe(sources={"banks": chosen}, training=training)
    return RunRecord(recipe, dict.fromkeys(banks, "hash"))


@pytest.fixture
def seen(tmp_path: Path) -> FeatureBank:
    return write_blobs(tmp_path, "seen", encoder="net", classes=20)


@pytest.fixture
def held_out(seen: FeatureBank) -> BenchTable:
    """Return the classes that recipes keep out of training."""
    return BenchTable(group="in-domain", bank=seen, table=split_classes(seen, 0.2, 0)[1])


def _whole(bank: FeatureBank) -> BenchTable:
    return BenchTable(group="all", bank=bank, table=bank)


def _unseen(root: Path) -> BenchTable:
    return _whole(write_blobs(root, "unseen", encoder="net"))


def test_held_out_classes_and_other_data_sets_are_fine(
    tmp_path: Path, seen: FeatureBank, held_out: BenchTable
) -> None:
    tables = [held_out, _unseen(tmp_path)]
    check_not_trained_on(_run("net/seen"), tables, name="run")
    check_not_trained_on(RunRecord(short_recipe(), {}), [*tables, _whole(seen)], name="synthetic")
    with pytest.raises(Leakage, match="got 16 in common"):
        check_not_trained_on(_run("net/seen"), [*tables, _whole(seen)], name="run")


def test_what_a_run_began_with_counts(seen: FeatureBank) -> None:
    run = RunRecord(short_recipe(), {}, Start("hash", _run("net/seen", held_out_from=["other"])))
    with pytest.raises(Leakage, match="run was trained on classes of net/seen"):
        check_not_trained_on(run, [_whole(seen)], name="run")


def test_an_encoder_with_a_slash_in_its_name_hides_no_data_set(seen: FeatureBank) -> None:
    run = _run("owner/model/seen", banks=["owner/*"], held_out_from=["other"])
    assert trained_classes(run, seen) == set(seen.class_names)
    with pytest.raises(Leakage, match="run was trained on classes of net/seen"):
        check_not_trained_on(run, [_whole(seen)], name="run")


def test_the_classes_seen_are_all_but_those_held_out(
    seen: FeatureBank, held_out: BenchTable
) -> None:
    trained = trained_classes(_run("net/seen"), seen)
    assert trained == set(seen.class_names) - set(held_out.table.class_names)
    assert len(trained) == 16


@pytest.mark.parametrize(
    ("run", "classes"),
    [
        (_run("net/unseen", "net/seen"), 6),  # all of its classes, by a pattern
        (_run("net/unseen", "net/seen", banks=["net/seen", "net/unseen"]), 6),  # by its name
        (_run("old/unseen", "net/seen", banks=["*/*"]), 6),  # in another encoder's features
        (_run("net/unseen", "net/seen", data_set_weights={"unseen": 0.001}), 6),  # hardly ever
        (_run("net/unseen", held_out_from=["unseen"], held_out=0.34), 4),  # some classes of it
        (_run("net/unseen", "net/seen", disguised=1.0), 6),  # disguised
    ],
)
def test_a_data_set_that_was_trained_on_is_refused(
    tmp_path: Path, run: RunRecord, classes: int
) -> None:
    message = rf"run was trained on classes of net/unseen, .* got {classes} in common: class "
    with pytest.raises(Leakage, match=message):
        check_not_trained_on(run, [_unseen(tmp_path)], name="run")


@pytest.mark.parametrize(
    "run",
    [
        _run("net/seen", "net/unseen", data_set_weights={"unseen": 0.0}),
        _run("net/seen", banks=["net/*", "net/unseen"]),  # it was not there
    ],
)
def test_a_data_set_that_no_batch_came_from_is_fine(tmp_path: Path, run: RunRecord) -> None:
    unseen = _unseen(tmp_path)
    assert trained_classes(run, unseen.bank) == set()
    check_not_trained_on(run, [unseen], name="run")


def test_classes_that_were_trained_on_are_refused_in_any_features(tmp_path: Path) -> None:
    other = write_blobs(tmp_path, "seen", encoder="other", classes=20)
    with pytest.raises(Leakage, match=r"trained on classes of other/seen.*got 16 in common"):
        check_not_trained_on(_run("net/seen"), [_whole(other)], name="run")


@pytest.mark.parametrize("changes", [{"seed": 1}, {"held_out": 0.1}, {"held_out_from": ["other"]}])
def test_another_split_is_refused(held_out: BenchTable, changes: dict[str, Any]) -> None:
    with pytest.raises(Leakage, match=r"trained on classes of net/seen.*`seed` = 0"):
        check_not_trained_on(_run("net/seen", "net/other", **changes), [held_out], name="run")


def test_each_source_of_banks_counts_with_its_own_split(held_out: BenchTable) -> None:
    """Two choices in one recipe, as Python can build them: the second does not hold classes out."""
    kept = BankChoice(banks=("net/seen",), held_out_from=("seen",))
    whole = BankChoice(banks=("*/seen",), held_out_from=("other",))
    elsewhere = BankChoice(banks=("net/other",), held_out_from=("other",))
    recipe = short_recipe()
    data = {"net/seen": "hash", "net/other": "hash"}

    def run(*sources: BankChoice) -> RunRecord:
        return RunRecord(replace(recipe, sources=sources, source_weights=(1.0, 1.0)), data)

    check_not_trained_on(run(kept, elsewhere), [held_out], name="run")
    for both in ((kept, whole), (whole, kept)):
        with pytest.raises(Leakage, match="got 4 in common"):
            check_not_trained_on(run(*both), [held_out], name="run")


def test_every_table_is_looked_at(tmp_path: Path, held_out: BenchTable) -> None:
    with pytest.raises(Leakage, match="net/unseen"):
        check_not_trained_on(
            _run("net/seen", "net/unseen"), [held_out, _unseen(tmp_path)], name="run"
        )


def test_both_sides_of_a_pair_are_looked_at(tmp_path: Path, seen: FeatureBank) -> None:
    other = write_blobs(tmp_path, "fresh", encoder="net", seed=1)
    for support, query in ((seen, other), (other, seen)):
        cross = CrossTable.of(support, query)
        pair = BenchTable(group="across", bank=support, table=cross, query_bank=query)
        with pytest.raises(
            Leakage, match=rf"trained on classes of net/{support.name}->{query.name}"
        ):
            check_not_trained_on(_run("net/seen", held_out_from=["x"]), [pair], name="run")
        check_not_trained_on(_run("net/elsewhere"), [pair], name="run")
