from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.known_learners import SureOfFirst, write_blobs
from unitail.banks.bank import FeatureBank
from unitail.baselines.proto_head import ProtoHead
from unitail.benchmark.learners import BenchLearner
from unitail.benchmark.merge import merge_results
from unitail.benchmark.run import BenchRun
from unitail.benchmark.store import ResultStore, StoredEvaluation
from unitail.benchmark.suites import BenchTable
from unitail.errors import UserError
from unitail.evaluation.protocol import EvaluationProtocol


def _run(root: Path, folder: str, *learners: str, seed: int = 0) -> BenchRun:
    if not (root / "toy" / "one").exists():
        for name in ("one", "two"):
            write_blobs(root, name)
    banks = [FeatureBank.open(root / "toy" / name) for name in ("one", "two")]
    made = {"sure": SureOfFirst(), "prototypes": ProtoHead()}
    return BenchRun(
        learners=[BenchLearner(name, made[name], "same") for name in learners],
        tables=[BenchTable(group="g", bank=bank, table=bank) for bank in banks],
        protocols=[EvaluationProtocol(queries=3, episodes=8, seed=seed)],
        folder=root / folder,
        device=torch.device("cpu"),
    )


def test_what_others_measured_is_not_measured_again(tmp_path: Path) -> None:
    _run(tmp_path, "a", "sure").run()
    replace(_run(tmp_path, "b", "prototypes"), shard=(1, 2)).run()  # one table only
    both = _run(tmp_path, "all", "sure", "prototypes")
    assert merge_results(both, [tmp_path / "a", tmp_path / "b"]) == 3
    assert both.pending() == 8  # prototypes on the table that nobody measured them on
    results = both.run()
    whole = _run(tmp_path, "whole", "sure", "prototypes").run()
    for merged, direct in zip(results, whole, strict=True):
        for name in ("sure", "prototypes"):
            mine, other = merged.evaluations[name].scores, direct.evaluations[name].scores
            assert np.array_equal(mine.accuracy, other.accuracy)
            assert np.array_equal(mine.hashes, other.hashes)


def test_answers_to_other_episodes_are_refused(tmp_path: Path) -> None:
    run = _run(tmp_path, "a", "sure", "prototypes")
    run.run()
    table, protocol = run.work()[0]
    store = ResultStore(tmp_path / "a" / "parts")
    stored = store.read(table, protocol)
    for names in (("sure", "prototypes"), ("prototypes",)):  # all of them, or one among others
        changed = {name: _rehashed(stored[name]) for name in names}
        store.write(table, protocol, {**stored, **changed})
        with pytest.raises(UserError, match=r"answered other episodes of toy/one than are drawn"):
            merge_results(_run(tmp_path, "b", "sure"), [tmp_path / "a"])


def _rehashed(stored: StoredEvaluation) -> StoredEvaluation:
    scores = replace(stored.evaluation.scores, hashes=stored.evaluation.scores.hashes + 1)
    return replace(stored, evaluation=replace(stored.evaluation, scores=scores))


def test_results_of_other_rows_or_settings_are_refused(tmp_path: Path) -> None:
    _run(tmp_path, "a", "sure", seed=1).run()
    with pytest.raises(UserError, match=r"a holds no results of this benchmark: got no file of"):
        merge_results(_run(tmp_path, "b", "sure"), [tmp_path / "a"])
    _run(tmp_path, "a", "sure").run()
    other = tmp_path / "elsewhere"
    for name in ("one", "two"):
        write_blobs(other, name, seed=9)
    with pytest.raises(UserError, match=r"not belong to this benchmark: got other rows.*toy/one, "):
        merge_results(_run(other, "b", "sure"), [tmp_path / "a"])
