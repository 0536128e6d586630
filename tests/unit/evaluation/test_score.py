import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.known_learners import SolvesNothing, SureOfFirst, write_blobs
from unitail.baselines.proto_head import ProtoHead
from unitail.errors import UserError
from unitail.evaluation.episodes import FixedEpisodes
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Outcome
from unitail.evaluation.score import _Record, score_learner, score_learners
from unitail.framework.episode import Support
from unitail.tasks.bank_episodes import BankEpisodes
from unitail.tasks.bundled import bundled_tasks
from unitail.tasks.synthetic.gaussian import GaussianTasks

WINE = next(task for task in bundled_tasks() if task.name == "wine")
SHORT = EvaluationProtocol(ways=3, queries=4, episodes=120)


class Recorder(SureOfFirst):
    """Remembers what it was asked, and with which seeds."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []
        self.seeds: list[int] = []

    def with_seed(self, seed: int) -> "Recorder":
        self.seeds.append(seed)
        return self

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        self.seen.append(query_features)
        return super().infer(support, query_features)


def test_a_known_learner_has_known_scores() -> None:
    evaluation = score_learner(SureOfFirst(0.6), WINE, SHORT)
    assert evaluation.outcome is Outcome.ANSWERED
    assert evaluation.source == "wine"
    assert evaluation.accuracy.mean == pytest.approx(1 / 3)
    assert evaluation.accuracy.half_width == pytest.approx(0, abs=1e-6)
    assert evaluation.nll.mean == pytest.approx(-(math.log(0.6) + 2 * math.log(0.2)) / 3)
    right, wrong = 0.4**2 + 2 * 0.2**2, 0.6**2 + 0.8**2 + 0.2**2
    assert evaluation.brier.mean == pytest.approx((right + 2 * wrong) / 3)
    assert evaluation.calibration.error == pytest.approx(0.6 - 1 / 3)
    assert evaluation.accuracy.count == len(evaluation.scores.hashes) == 120
    assert (evaluation.scores.seconds > 0).all()
    assert np.isnan(evaluation.scores.memory).all()
    assert evaluation.device == "cpu"


@pytest.mark.parametrize("kind", ["bank", "banks", "tasks", "task"])
def test_learners_are_measured_on_any_source(tmp_path: Path, kind: str) -> None:
    bank = write_blobs(tmp_path)
    sources = {"bank": bank, "banks": BankEpisodes([bank]), "tasks": GaussianTasks(), "task": WINE}
    evaluation = score_learner(ProtoHead(), sources[kind], SHORT)
    assert evaluation.accuracy.low > 1 / 3
    names = {"bank": "toy/blobs", "banks": "BankEpisodes", "tasks": "GaussianTasks", "task": "wine"}
    assert evaluation.source == names[kind]


def test_all_learners_answer_the_same_episodes_once_but_for_a_warm_up() -> None:
    first, second = Recorder(), Recorder()
    evaluations = score_learners({"first": first, "second": second}, WINE, SHORT)
    assert len(first.seen) == 1 + math.ceil(120 / 50)
    assert all(mine is other for mine, other in zip(first.seen, second.seen, strict=True))
    assert np.array_equal(evaluations["first"].scores.hashes, evaluations["second"].scores.hashes)
    assert [len(each) for each in first.seen] == [50, 50, 50, 20]


def test_every_batch_has_draws_of_its_own() -> None:
    recorder = Recorder()
    score_learner(recorder, WINE, SHORT)
    assert len(set(recorder.seeds)) == 3


class OutOfMemory(SureOfFirst):
    """Runs out of memory at the second batch."""

    asked = 0

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        self.asked += 1
        if self.asked == 3:
            raise torch.cuda.OutOfMemoryError("Tried to allocate 1 GiB. More words.")
        return super().infer(support, query_features)


def test_a_learner_that_fails_does_not_stop_the_others() -> None:
    progress = []
    evaluations = score_learners(
        {"cannot": SolvesNothing(), "memory": OutOfMemory(), "can": SureOfFirst()},
        WINE,
        SHORT,
        on_progress=lambda done, total: progress.append((done, total)),
    )
    assert evaluations["cannot"].outcome is Outcome.CANNOT
    assert evaluations["cannot"].reason.startswith("too many classes: got 3; allowed: none.")
    assert evaluations["memory"].outcome is Outcome.OUT_OF_MEMORY
    assert evaluations["memory"].reason == "Tried to allocate 1 GiB"
    assert len(evaluations["memory"].scores.hashes) == 0
    assert evaluations["memory"].calibration.counts.sum() == 0
    assert evaluations["can"].accuracy.count == 120
    assert [done for done, _ in progress] == [50, 100, 150, 200, 250, 300, 320, 340, 360]
    assert {total for _, total in progress} == {3 * 120}


class Broken(SureOfFirst):
    """Answers with NaN."""

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        return torch.nan * super().infer(support, query_features)


def test_answers_that_are_not_numbers_stop_with_the_learners_name() -> None:
    with pytest.raises(UserError, match="the log-probabilities of Broken are not numbers"):
        score_learner(Broken(), WINE, SHORT)


class Fitted(SureOfFirst):
    """Needs gradients, as learners that descend them do."""

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        weight = torch.ones((), requires_grad=True)
        (2 * weight).backward()
        return weight * super().infer(support, query_features)


def test_learners_may_use_gradients() -> None:
    assert score_learner(Fitted(), WINE, SHORT).accuracy.count == 120


def test_prototypes_solve_wine() -> None:
    assert (
        score_learner(ProtoHead(), WINE, EvaluationProtocol(shots=5, episodes=50)).accuracy.low
        > 0.85
    )


def test_memory_is_counted_from_what_was_there_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU, with the numbers that one would report."""
    calls: list[str] = []
    for name, value in (
        ("synchronize", None),
        ("reset_peak_memory_stats", None),
        ("memory_allocated", 5 * 2**20),
        ("max_memory_allocated", 12 * 2**20),
    ):
        monkeypatch.setattr(
            torch.cuda, name, lambda device, name=name, value=value: (calls.append(name), value)[1]
        )
    episode = FixedEpisodes.of(WINE, SHORT).batch(0).episode
    record = _Record("first", SureOfFirst(), torch.device("cuda"))
    answers, seconds, memory = record._timed_answers(episode, seed=0)
    assert memory == 7
    assert seconds > 0
    assert isinstance(answers, Tensor)
    assert calls[:2] == ["synchronize", "reset_peak_memory_stats"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_answers_and_reports_its_memory() -> None:
    evaluation = score_learner(ProtoHead(), WINE, SHORT, device="cuda")
    usual = score_learner(ProtoHead(), WINE, SHORT)
    assert np.array_equal(evaluation.scores.hashes, usual.scores.hashes)
    assert evaluation.accuracy.mean == pytest.approx(usual.accuracy.mean, abs=1e-3)
    assert evaluation.memory > 0
    assert evaluation.device != "cpu"
