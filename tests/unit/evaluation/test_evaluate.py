import pytest
import torch
from torch import Tensor

from unitail.baselines.proto_head import ProtoHead
from unitail.errors import UserError
from unitail.evaluation.evaluate import evaluate
from unitail.framework.episode import Episode, Support
from unitail.framework.learner import Paradigm
from unitail.tasks.arrays import ArrayTask
from unitail.tasks.bundled import bundled_tasks

WINE = next(task for task in bundled_tasks() if task.name == "wine")


class Recorder:
    """Answers class 0 always, and remembers what it was asked."""

    paradigm = Paradigm.EXPLICIT

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        self.seen.append(query_features)
        answers = torch.zeros(*query_features.shape[:2], support.ways)
        answers[..., 0] = 1
        return answers.log_softmax(-1)


def test_a_constant_answer_is_right_at_chance() -> None:
    found = evaluate(Recorder(), WINE, shots=1, episodes=10)
    assert found.mean == pytest.approx(1 / 3)
    assert found.count == 10


def test_all_learners_answer_the_same_episodes() -> None:
    first, second, other = Recorder(), Recorder(), Recorder()
    evaluate(first, WINE, shots=1, episodes=7, batch=3)
    evaluate(second, WINE, shots=1, episodes=7, batch=3)
    evaluate(other, WINE, shots=1, episodes=7, batch=3, seed=1)
    assert torch.equal(torch.cat(first.seen), torch.cat(second.seen))
    assert not torch.equal(torch.cat(first.seen), torch.cat(other.seen))


class OneShot(ArrayTask):
    """Gives one-shot instances whatever is asked, so that only the stream tells episodes apart."""

    def sample(
        self, *, episodes: int, shots: int, queries: int, generator: torch.Generator
    ) -> Episode:
        return super().sample(episodes=episodes, shots=1, queries=queries, generator=generator)


def test_each_task_and_number_of_shots_has_episodes_of_its_own() -> None:
    def asked(name: str, shots: int) -> Tensor:
        recorder, rows = Recorder(), torch.arange(60.0)
        task = OneShot(features=rows.unsqueeze(1), class_indices=rows.long() % 2, name=name)
        evaluate(recorder, task, shots=shots, queries=5, episodes=3)
        return torch.cat(recorder.seen)

    assert torch.equal(asked("one", 1), asked("one", 1))
    assert not torch.equal(asked("one", 1), asked("one", 2))
    assert not torch.equal(asked("one", 1), asked("other", 1))


def test_prototypes_solve_wine() -> None:
    found = evaluate(ProtoHead(), WINE, shots=5, episodes=50)
    assert found.low > 0.85


class Seeded(Recorder):
    """Remembers the seeds it was given."""

    def __init__(self, seeds: list[int]) -> None:
        super().__init__()
        self.seeds = seeds

    def with_seed(self, seed: int) -> "Seeded":
        self.seeds.append(seed)
        return self


def test_every_batch_has_draws_of_its_own() -> None:
    seeds: list[int] = []
    evaluate(Seeded(seeds), WINE, shots=1, episodes=9, batch=3)
    assert len(set(seeds)) == 3


class Broken(Recorder):
    """Answers with NaN."""

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        return torch.nan * super().infer(support, query_features)


def test_answers_that_are_not_numbers_are_no_answers() -> None:
    with pytest.raises(UserError, match="log-probabilities are not numbers"):
        evaluate(Broken(), WINE, shots=1, episodes=4)


@pytest.mark.parametrize("option", ["episodes", "batch"])
def test_none_of_something_is_refused(option: str) -> None:
    with pytest.raises(UserError, match=f"{option} are too few: got 0"):
        evaluate(Recorder(), WINE, shots=1, **{option: 0})
