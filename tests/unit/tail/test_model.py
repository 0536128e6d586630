from dataclasses import replace

import pytest
import torch

from helpers.builders import flops, random_episode, random_support, small_model
from unitail.errors import InvalidEpisode, TooManyClasses
from unitail.learners.registry import preset
from unitail.nn.episode_model import Normalisation, Visibility
from unitail.randomness import stream
from unitail.tail.model import Tail


@pytest.mark.parametrize("visibility", Visibility)
def test_scores_are_deterministic_given_a_draw(visibility: Visibility) -> None:
    model, episode = small_model(visibility=visibility), random_episode()
    draw = model.draw(episode.support, stream(0))
    scores = model(episode, draw)
    assert scores.shape == (2, 4, 3)
    assert torch.equal(scores, model(episode, draw))


def test_draws_differ_and_so_do_the_scores() -> None:
    model, episode = small_model(), random_episode()
    one, other = (model(episode, model.draw(episode.support, stream(seed))) for seed in (0, 1))
    assert not torch.allclose(one, other)


def test_every_part_changes_the_answer() -> None:
    """A support's features and labels, and the query, must all reach the scores."""
    model, episode = small_model(), random_episode(queries=1)
    draw = model.draw(episode.support, stream(0))
    scores = model(episode, draw)
    support, query = episode.support, episode.query
    flipped = replace(support, class_indices=(support.class_indices + 1) % 3)
    moved = replace(support, features=support.features.roll(1, dims=2))
    for other in (
        replace(episode, support=flipped),
        replace(episode, support=moved),
        replace(episode, query=replace(query, features=-query.features)),
    ):
        assert (model(other, draw) - scores).abs().max() > 1e-4


@pytest.mark.parametrize("normalisation", Normalisation)
def test_only_normalised_features_may_be_shifted_and_scaled(normalisation: Normalisation) -> None:
    model, episode = small_model(normalisation=normalisation), random_episode()
    support, query = episode.support, episode.query
    shift = torch.randn(5, generator=stream(0), dtype=torch.float64)
    moved = replace(
        episode,
        support=replace(support, features=3 * support.features + shift),
        query=replace(query, features=3 * query.features + shift),
    )
    draw = model.draw(support, stream(0))
    difference = (model(moved, draw) - model(episode, draw)).abs().max()
    assert difference > 1e-2 if normalisation is Normalisation.NONE else difference < 1e-9


def test_a_read_support_is_not_read_again() -> None:
    """Answering one query must cost far less than reading, and chunks no more than all at once."""
    model, episode = small_model(), random_episode((20, 20, 20), queries=30)
    queries, draw = episode.query.features, model.draw(episode.support, stream(0))
    read = model.read(episode.support, draw)
    reading = flops(lambda: model.read(episode.support, draw))
    at_once = flops(lambda: model.answer(read, queries))
    assert flops(lambda: model.answer(read, queries[:, :1])) < reading / 10
    chunks = torch.split(queries, 4, dim=1)
    assert flops(lambda: [model.answer(read, chunk) for chunk in chunks]) == at_once


@pytest.mark.parametrize("visibility", Visibility)
def test_every_weight_gets_a_gradient(visibility: Visibility) -> None:
    model, episode = small_model(visibility=visibility), random_episode((1,) * 7, queries=7)
    model(episode, model.draw(episode.support, stream(0))).logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_more_classes_than_slots_are_refused_where_the_draw_is_made() -> None:
    with pytest.raises(TooManyClasses, match="got 8 classes; allowed: at most 7"):
        small_model().draw(random_support((1,) * 8), stream(0))


def test_queries_of_another_width_are_refused() -> None:
    model = small_model()
    support = random_support((1, 1))
    read = model.read(support, model.draw(support, stream(0)))
    with pytest.raises(InvalidEpisode, match=r"feature width .* got 6; allowed: 5"):
        model.answer(read, torch.randn(2, 3, 6, dtype=torch.float64))


def test_the_seed_decides_the_weights_and_nothing_else_does() -> None:
    torch.manual_seed(1)
    first = Tail(preset("tiny"), seed=3).state_dict()
    torch.manual_seed(2)
    second, other = Tail(preset("tiny"), seed=3).state_dict(), Tail(preset("tiny"), seed=4)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["labels.embeddings"], other.labels.embeddings)


def test_features_may_be_more_precise_than_the_model() -> None:
    model, episode = small_model().float(), random_episode()
    assert model(episode, model.draw(episode.support, stream(0))).dtype == torch.float32
