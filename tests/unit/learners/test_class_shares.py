import pytest
import torch
from torch import Tensor

from helpers.builders import random_episode, small_model
from unitail.baselines.proto_head import ProtoHead
from unitail.framework.learner import Paradigm
from unitail.learners.class_shares import EqualShares, impose_shares
from unitail.learners.in_context import InContextLearner
from unitail.randomness import stream


def answers(episodes: int = 2, queries: int = 30, ways: int = 4) -> Tensor:
    scores = torch.randn(episodes, queries, ways, generator=stream(0), dtype=torch.float64)
    return (3 * scores).log_softmax(dim=-1)


def test_expected_counts_agree_with_the_given_shares() -> None:
    shares = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    probabilities = impose_shares(answers(), shares).exp()
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(2, 30, dtype=torch.float64))
    torch.testing.assert_close(probabilities.mean(1), shares.expand(2, 4), atol=1e-5, rtol=0)


def test_only_classes_are_moved_never_the_order_of_queries_within_one() -> None:
    before = answers()
    after = impose_shares(before, torch.full((4,), 0.25, dtype=torch.float64))
    moved = after - before  # b_k, and one number for each query
    contrast = moved[..., 1:] - moved[..., :1]
    torch.testing.assert_close(contrast, contrast[:, :1].expand_as(contrast))


def test_answers_that_agree_stay() -> None:
    before = answers()
    shares = before.exp().mean(dim=(0, 1))
    one = before[:1]
    torch.testing.assert_close(impose_shares(one, one.exp().mean(dim=(0, 1))), one)
    assert not torch.allclose(impose_shares(one, shares.flip(0)), one)


def test_a_learner_with_equal_shares_predicts_classes_equally_often() -> None:
    episode = random_episode()
    learner = EqualShares(ProtoHead())
    means = learner.infer(episode.support, episode.query.features).exp().mean(dim=1)
    expected = torch.full_like(means, 1 / episode.support.ways)
    torch.testing.assert_close(means, expected, atol=1e-4, rtol=0)
    assert learner.paradigm is Paradigm.EXPLICIT


def test_draws_are_the_learners_own() -> None:
    random = EqualShares(InContextLearner(small_model(), seed=0))
    again = random.with_seed(7).learner
    assert isinstance(again, InContextLearner)
    assert again.seed == 7


def test_shares_that_are_not_reached_are_reported() -> None:
    odds = torch.tensor([0.0, 900, 1800, 2700], dtype=torch.float64)
    answers = torch.stack([odds, torch.zeros(4).double()], dim=1).log_softmax(dim=1)[None]
    shares = torch.tensor([0.5, 0.5], dtype=torch.float64)
    with pytest.warns(UserWarning, match=r"miss the given class shares: one class is off by 1\.0"):
        impose_shares(answers, shares)
    reached = impose_shares((answers / 100).log_softmax(dim=2), shares).exp().sum(dim=1)
    torch.testing.assert_close(reached, torch.full((1, 2), 2.0).double(), atol=1e-3, rtol=0)
