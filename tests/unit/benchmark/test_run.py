import fcntl
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.known_learners import SolvesNothing, SureOfFirst, write_blobs
from helpers.short_runs import short_recipe
from unitail.banks.cross import CrossTable
from unitail.benchmark import store
from unitail.benchmark.learners import BenchLearner
from unitail.benchmark.run import BenchRun
from unitail.benchmark.suites import BenchTable
from unitail.errors import CannotWrite, Leakage, UserError
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Outcome
from unitail.framework.episode import Support
from unitail.framework.learner import Inference
from unitail.training.run_folder import RECIPE_FILE, RunRecord

PROTOCOLS = [EvaluationProtocol(shots=shots, queries=3, episodes=8) for shots in (1, 2)]


class Counter(SureOfFirst):
    """Counts how often it is asked; fails when it has been asked `limit` times."""

    def __init__(self, limit: int = 10**9) -> None:
        super().__init__()
        self.asked, self.limit = 0, limit

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        if self.asked >= self.limit:
            raise KeyboardInterrupt
        self.asked += 1
        return super().infer(support, query_features)


@pytest.fixture
def tables(tmp_path: Path) -> list[BenchTable]:
    banks = [write_blobs(tmp_path / "banks", name) for name in ("one", "two")]
    return [BenchTable(group="blobs", bank=bank, table=bank) for bank in banks]


def _bench(folder: Path, tables: Sequence[BenchTable], **learners: Inference) -> BenchRun:
    return BenchRun(
        learners=[BenchLearner(name, learner, "same") for name, learner in learners.items()],
        tables=tables,
        protocols=PROTOCOLS,
        folder=folder,
        device=torch.device("cpu"),
    )


ASKED = 2  # for each table and protocol: the warm-up and the one batch


def test_all_learners_are_measured_on_all_tables(tmp_path: Path, tables: list[BenchTable]) -> None:
    progress: list[tuple[int, int]] = []
    run = _bench(tmp_path, tables, sure=SureOfFirst(), cannot=SolvesNothing())
    assert run.pending() == 2 * 2 * 2 * 8
    results = run.run(lambda done, total: progress.append((done, total)))
    assert [(each.table.name, each.protocol.shots) for each in results] == [
        *(("toy/one", 1), ("toy/one", 2), ("toy/two", 1), ("toy/two", 2))
    ]
    for result in results:
        assert result.evaluations["sure"].accuracy.count == 8
        assert result.evaluations["cannot"].outcome is Outcome.CANNOT
    assert progress == [(done, 64) for done in range(8, 65, 8)]
    assert (tmp_path / "parts" / ".gitignore").read_text() == "*\n"


def test_a_learner_is_kept_when_the_next_one_is_broken_off(
    tmp_path: Path, tables: list[BenchTable]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        _bench(tmp_path, tables, done=SureOfFirst(), broken=Counter(limit=1)).run()
    again = Counter()
    run = _bench(tmp_path, tables[:1], done=again, broken=SureOfFirst())
    assert run.pending() == 8 * (2 * 2 - 1)  # all but the first learner of the first protocol
    run.run()
    assert again.asked == ASKED


def test_what_is_done_is_not_done_again(tmp_path: Path, tables: list[BenchTable]) -> None:
    first, again = Counter(), Counter()
    before = _bench(tmp_path, tables, it=first, cannot=SolvesNothing()).run()
    run = _bench(tmp_path, tables, it=again, cannot=SolvesNothing())
    assert run.pending() == 0
    after = run.run()
    assert (first.asked, again.asked) == (4 * ASKED, 0)
    for old, new in zip(before, after, strict=True):
        mine, other = old.evaluations["it"].scores, new.evaluations["it"].scores
        assert np.array_equal(mine.hashes, other.hashes)
        assert np.array_equal(mine.nll, other.nll)
        assert new.evaluations["cannot"].outcome is Outcome.CANNOT


def test_an_interrupted_run_resumes(tmp_path: Path, tables: list[BenchTable]) -> None:
    with pytest.raises(KeyboardInterrupt):
        _bench(tmp_path, tables, it=Counter(limit=2 * ASKED + 1)).run()
    again = Counter()
    run = _bench(tmp_path, tables, it=again)
    assert run.pending() == 2 * 8
    run.run()
    assert again.asked == 2 * ASKED


def test_only_missing_and_changed_learners_are_measured(
    tmp_path: Path, tables: list[BenchTable]
) -> None:
    old, changed, new = Counter(), Counter(), Counter()
    _bench(tmp_path, tables, old=Counter(), changed=Counter()).run()
    run = _bench(tmp_path, tables, old=old, changed=changed, new=new)
    run = replace(
        run,
        learners=[
            replace(each, fingerprint="other") if each.name == "changed" else each
            for each in run.learners
        ],
    )
    results = run.run()
    assert (old.asked, changed.asked, new.asked) == (0, 4 * ASKED, 4 * ASKED)
    for result in results:
        hashes = [each.scores.hashes for each in result.evaluations.values()]
        assert all(np.array_equal(each, hashes[0]) for each in hashes)


def test_learners_that_are_not_asked_for_are_kept(tmp_path: Path, tables: list[BenchTable]) -> None:
    one, two = Counter(), Counter()
    _bench(tmp_path, tables, one=one).run()
    results = _bench(tmp_path, tables, two=two).run()
    assert list(results[0].evaluations) == ["two"]
    _bench(tmp_path, tables, one=one, two=two).run()
    assert (one.asked, two.asked) == (4 * ASKED, 4 * ASKED)


def test_results_on_other_episodes_are_measured_again(
    tmp_path: Path, tables: list[BenchTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if another version of torch had drawn other episodes."""
    other = [replace(each, seed=5) for each in PROTOCOLS]
    with monkeypatch.context() as patch:
        patch.setattr(store, "to_table", lambda protocol: {**vars(protocol), "seed": 0})
        replace(_bench(tmp_path, tables, old=Counter()), protocols=other).run()
    for path in (tmp_path / "parts").glob("*seed_5.parquet"):
        path.rename(path.with_name(path.name.replace("seed_5", "seed_0")))
    old, new = Counter(), Counter()
    assert _bench(tmp_path, tables, old=old).pending() == 0
    results = _bench(tmp_path, tables, old=old, new=new).run()
    assert (old.asked, new.asked) == (4 * ASKED, 4 * ASKED)
    both = results[0].evaluations
    assert np.array_equal(both["old"].scores.hashes, both["new"].scores.hashes)


def test_tables_with_too_few_rows_are_left_out(tmp_path: Path, tables: list[BenchTable]) -> None:
    bank = write_blobs(tmp_path / "banks", "small", rows=2)
    small = BenchTable(group="blobs", bank=bank, table=bank)
    run = _bench(tmp_path, [*tables, small], it=SureOfFirst())
    assert run.too_small() == ["toy/small (5-way 2-shot)"]
    assert run.notes() == ["Left out because they have too few rows: toy/small (5-way 2-shot)."]
    crossed = BenchTable(group="x", bank=bank, table=CrossTable.of(bank, tables[0].table))
    whole = replace(run, tables=[crossed], protocols=[replace(PROTOCOLS[1], ways=9)])
    assert whole.notes() == [
        "All rows are examples in every episode, so the interval does not reflect the choice of"
        " examples: toy/small->one (9-way 2-shot)."
    ]
    assert len(run.run()) == 5
    with pytest.raises(UserError, match=r"no data set has enough rows: got 5-way 2-shot"):
        replace(run, tables=[small], protocols=PROTOCOLS[1:])


def test_a_second_benchmark_is_kept_out(tmp_path: Path, tables: list[BenchTable]) -> None:
    run = _bench(tmp_path, tables, it=SureOfFirst())
    run.run()
    with (tmp_path / "parts" / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(CannotWrite, match="another process is writing"):
            run.run()


def test_leakage_stops_before_anything_is_measured(
    tmp_path: Path, tables: list[BenchTable]
) -> None:
    bank = {"banks": ["*"], "held_out_from": ["one"], "held_out": 0.5}
    record = RunRecord(short_recipe(sources={"banks": bank}), {"other/two": "hash"})
    (tmp_path / RECIPE_FILE).write_text(record.text())
    trained = BenchLearner("it", SureOfFirst(), "same", tmp_path)
    run = _bench(tmp_path, tables)
    with pytest.raises(Leakage, match="trained on classes of toy/two"):
        replace(run, learners=[trained])
