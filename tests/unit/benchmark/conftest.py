"""Results of a small benchmark that several tests look at."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from helpers.known_learners import SolvesNothing, SureOfFirst, write_blobs
from unitail.baselines.proto_head import ProtoHead
from unitail.benchmark.learners import BenchLearner
from unitail.benchmark.run import BenchRun
from unitail.benchmark.store import TableResult
from unitail.benchmark.suites import BenchTable
from unitail.errors import TooManyClasses
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.framework.episode import Support


class UpToThree(SureOfFirst):
    """Refuses more than three classes."""

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        if support.ways > 3:
            raise TooManyClasses("too many classes", got=support.ways, allowed="3 | fewer")
        return super().infer(support, query_features)


@pytest.fixture(scope="session")
def bench_results(tmp_path_factory: pytest.TempPathFactory) -> list[TableResult]:
    """Return four learners on three data sets of two groups, at one and two shots."""
    root = tmp_path_factory.mktemp("bench")
    tables = [
        _table(root, "images", "birds", classes=6),
        _table(root, "images", "cars", classes=3),
        _table(root, "words", "news", classes=7, rows=4),
    ]
    learners = {
        "prototypes": ProtoHead(),
        "first": SureOfFirst(),
        "three": UpToThree(),
        "none": SolvesNothing(),
    }
    return BenchRun(
        learners=[BenchLearner(name, learner, "") for name, learner in learners.items()],
        tables=tables,
        protocols=[EvaluationProtocol(shots=shots, queries=5, episodes=12) for shots in (1, 2)],
        folder=root / "out",
        device=torch.device("cpu"),
    ).run()


@pytest.fixture
def nobody_answered(bench_results: list[TableResult]) -> list[TableResult]:
    """Return the results of the one learner that could solve nothing."""
    return [
        replace(result, evaluations={"none": result.evaluations["none"]})
        for result in bench_results
    ]


def _table(root: Path, group: str, name: str, *, classes: int, rows: int = 12) -> BenchTable:
    bank = write_blobs(root, name, classes=classes, rows=rows)
    return BenchTable(group=group, bank=bank, table=bank)
