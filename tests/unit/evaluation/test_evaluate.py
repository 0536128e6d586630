import pytest
import torch
from torch import Tensor

from unitail.baselines.proto_head import ProtoHead
from unitail.evaluation.evaluate import evaluate
from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm
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


def test_prototypes_solve_wine() -> None:
    found = evaluate(ProtoHead(), WINE, shots=5, episodes=50)
    assert found.low > 0.85
