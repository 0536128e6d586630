"""Unlabelled rows that are read with the support: answers that stand alone know of them."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from helpers.builders import random_episode, small_model
from unitail.errors import CannotSolve, InvalidConfig, InvalidEpisode
from unitail.framework.episode import Episode
from unitail.nn.episode_model import NoDraw, Visibility
from unitail.randomness import stream
from unitail.relational.config import PRESETS
from unitail.relational.joint_share import joint_share
from unitail.relational.model import Relational

POOL = 6


def network(*, joint_yields: bool = False) -> Relational:
    config = replace(PRESETS["tiny"], joint_yields=joint_yields)
    model = Relational(config, seed=1).double().requires_grad_(False)
    for weight in model.parameters():
        if not weight.any():
            torch.nn.init.normal_(weight, std=0.3, generator=torch.Generator())
    return model


def episode_and_pool() -> tuple[Episode, Tensor]:
    episode = random_episode((2, 1, 3), queries=5, episodes=2)
    pool = torch.randn(2, POOL, 5, generator=stream(7), dtype=torch.float64)
    return episode, pool


def plain_answers(model: Relational, episode: Episode, pool: Tensor) -> Tensor:
    """Answer as it is defined: rows of support and pool see each other, and queries see those."""
    support, queries = episode.support, episode.query.features
    seen, relations = model._relate(support, torch.cat([support.features, pool], dim=1))
    asked = seen.frame.relate(queries)
    states = model._initial_states(seen.labels, POOL + queries.shape[1])
    count = support.num_support + POOL
    states, answers = states[:, :count], states[:, count:]
    for block in model.stack(jointly=True):
        answers = block(answers, states, seen.labels, seen.size, asked)
        states = block(states, states, seen.labels, seen.size, relations)
    return model._scores(answers, asked.candidates, seen.weights)


def test_answers_are_those_of_the_plain_definition() -> None:
    model, (episode, pool) = network(), episode_and_pool()
    answers = model(episode, NoDraw(), pool=pool)
    expected = plain_answers(model, episode, pool)
    torch.testing.assert_close(answers, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("visibility", [Visibility.ISOLATED, Visibility.JOINT])
def test_answers_yield_to_those_from_the_support_alone_as_far_as_its_rows_say(
    visibility: Visibility,
) -> None:
    model, yielding = network(), network(joint_yields=True)
    episode, pool = episode_and_pool()
    read = pool if visibility is Visibility.ISOLATED else None
    draw = NoDraw()
    alone = model(episode, draw, Visibility.ISOLATED)
    together = model(episode, draw, visibility, read)
    share = joint_share(model._relate(episode.support, episode.support.features)[0].frame)
    assert 0.1 < share.amin() < share.amax() < 0.9  # else nothing here is tried
    answers = yielding(episode, draw, visibility, read)
    torch.testing.assert_close(answers, share * together + (1 - share) * alone)
    isolated = yielding(episode, draw, Visibility.ISOLATED)
    torch.testing.assert_close(isolated, alone, rtol=0, atol=0)


def test_with_one_row_of_each_class_nothing_yields() -> None:
    episode = random_episode((1, 1, 1), queries=5, episodes=2)
    pool = episode_and_pool()[1]
    answers = network(joint_yields=True)(episode, NoDraw(), pool=pool)
    torch.testing.assert_close(answers, network()(episode, NoDraw(), pool=pool))


@pytest.mark.parametrize("visibility", [Visibility.ISOLATED, Visibility.JOINT])
@pytest.mark.parametrize(("ways", "width"), [(2, 5), (2, 31), (2, 32), (3, 5)])
def test_with_one_row_of_two_classes_in_few_columns_all_yields(
    ways: int, width: int, visibility: Visibility
) -> None:
    episode = random_episode((1,) * ways, queries=5, episodes=2, feature_dim=width)
    rows = torch.randn(2, POOL, width, generator=stream(7), dtype=torch.float64)
    pool, draw = (rows if visibility is Visibility.ISOLATED else None), NoDraw()
    answers = network(joint_yields=True)(episode, draw, visibility, pool)
    together = network()(episode, draw, visibility, pool)
    alone = network()(episode, draw, Visibility.ISOLATED)
    assert not torch.allclose(together, alone)
    yields = ways == 2 and width < 32
    torch.testing.assert_close(answers, alone if yields else together)
    read = network(joint_yields=True).read(episode.support, draw, visibility, pool)
    assert (read.visibility is Visibility.ISOLATED and not read.pooled) == (yields), (
        "nothing is read jointly whose weight is zero"
    )


def test_an_answer_depends_on_no_other_query_nor_on_their_order_or_number() -> None:
    model, (episode, pool) = network(), episode_and_pool()
    read = model.read(episode.support, NoDraw(), pool=pool)
    queries = episode.query.features
    together = model.answer(read, queries)
    order = torch.tensor([3, 0, 4, 1, 2])
    turned = model.answer(read, queries[:, order])
    torch.testing.assert_close(turned, together[:, order], rtol=0, atol=1e-12)
    crowd = torch.cat([100 * torch.randn_like(queries), queries], dim=1)
    torch.testing.assert_close(model.answer(read, crowd)[:, 5:], together, rtol=0, atol=1e-12)
    for index in range(5):
        alone = model.answer(read, queries[:, index : index + 1])
        torch.testing.assert_close(alone[:, 0], together[:, index], rtol=0, atol=1e-12)


def test_the_order_of_the_pool_means_nothing_but_its_rows_do() -> None:
    model, (episode, pool) = network(), episode_and_pool()
    answers = model(episode, NoDraw(), pool=pool)
    turned = model(episode, NoDraw(), pool=pool.flip(1))
    torch.testing.assert_close(turned, answers, rtol=0, atol=1e-12)
    for other in (None, pool[:, 1:], pool + torch.arange(POOL).view(1, -1, 1)):
        assert not torch.allclose(model(episode, NoDraw(), pool=other), answers)


def test_queries_that_are_the_pool_are_not_answered_as_joint_ones() -> None:
    """A joint query sees itself, too; one that is asked of a pool sees its twin in it."""
    model, (episode, _) = network(), episode_and_pool()
    joint = model(episode, NoDraw(), Visibility.JOINT)
    pooled = model(episode, NoDraw(), pool=episode.query.features)
    assert not torch.allclose(joint, pooled)


def test_a_pool_that_does_not_fit_is_refused() -> None:
    model, (episode, pool) = network(), episode_and_pool()
    message = "width of the pool differs from the support's: got 4; allowed: 5, as in the support"
    with pytest.raises(InvalidEpisode, match=message):
        model.read(episode.support, NoDraw(), pool=pool[..., :4])
    message = "each query is answered independently: got visibility joint; allowed: isolated"
    with pytest.raises(InvalidConfig, match=message):
        model.read(episode.support, NoDraw(), Visibility.JOINT, pool)


def test_a_model_that_takes_no_pool_says_so() -> None:
    model, (episode, pool) = small_model(), episode_and_pool()
    message = "takes no pool of unlabelled rows: got 6 rows for Tail; allowed: no pool. Leave it"
    with pytest.raises(CannotSolve, match=message):
        model.read(episode.support, model.draw(episode.support, stream(0)), pool=pool)
