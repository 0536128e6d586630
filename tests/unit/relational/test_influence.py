"""What labelled rows add to an answer: sums, the exact part, and the part by integration."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from helpers.builders import random_episode
from unitail.framework.episode import Episode
from unitail.randomness import stream
from unitail.relational import influence, relations
from unitail.relational.config import PRESETS
from unitail.relational.model import ReadRelations, Relational
from unitail.relational.regressions import NUM_LOGISTIC, solve, stack_kernels


def network(strength: float = 0.3, *, joint_yields: bool = False) -> Relational:
    """Return a model whose blocks and weighing have an effect."""
    config = replace(PRESETS["tiny"], joint_yields=joint_yields)
    model = Relational(config, seed=1).double().requires_grad_(False)
    for weight in model.parameters():
        if not weight.any():
            torch.nn.init.normal_(weight, std=strength, generator=torch.Generator())
    return model


def asked(model: Relational, pool: Tensor | None = None) -> tuple[Episode, ReadRelations]:
    episode = random_episode((4, 3, 5), queries=6)
    return episode, model.read(episode.support, model.draw(episode.support, stream(0)), pool=pool)


def contributions(model: Relational, pool: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return what rows add to the most probable class, and all scores."""
    episode, read = asked(model, pool)
    queries = episode.query.features
    scores = model.answer(read, queries)
    return model.contributions(read, queries, scores.argmax(dim=2)), scores


def above_mean(scores: Tensor) -> Tensor:
    return scores.amax(dim=2) - scores.mean(dim=2)


def test_where_answers_yield_what_rows_add_does_so_too() -> None:
    """Without corrections rows add up to the score, with a pool and without, and so between."""
    pool = torch.randn(2, 4, 5, generator=stream(3), dtype=torch.float64)
    model = network(joint_yields=True)
    torch.nn.init.zeros_(model.head.weight)
    share = asked(model, pool)[1].joint_share
    assert share is not None
    assert 0.05 < share.amin() < share.amax() < 0.9
    values, scores = contributions(model, pool)
    torch.testing.assert_close(values.sum(dim=2), above_mean(scores), rtol=0, atol=1e-12)


def test_without_a_correction_rows_add_up_to_the_whole_score() -> None:
    model = network()
    torch.nn.init.zeros_(model.head.weight)
    values, scores = contributions(model)
    assert values.abs().amax() > 0.01
    torch.testing.assert_close(values.sum(dim=2), above_mean(scores), rtol=0, atol=1e-12)


def test_what_a_row_adds_is_its_label_carried_by_ridge_regression(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Held to the definition by taking one row's label away, and solving again."""
    monkeypatch.setattr(relations, "MAX_SCORE", 1e9)  # a clipped score is not a sum
    model = network()
    torch.nn.init.zeros_(model.head.weight)
    episode, read = asked(model)
    queries, place = episode.query.features, 3
    assert read.seen is not None
    factors = read.seen.weights.factors.clone()
    factors[:, :NUM_LOGISTIC] = 0  # ridge regressions alone
    weights = replace(read.seen.weights, factors=factors)
    frame = read.seen.frame
    read = replace(read, seen=replace(read.seen, weights=weights))
    scores = model.answer(read, queries)
    classes = scores.argmax(dim=2)
    labels = frame.labels - 1 / 3
    labels[:, place] = 0
    gram = stack_kernels(frame.geometry.compare_seen(), frame.labels.shape[1])
    other = replace(frame, ridges=solve(gram) @ labels.unsqueeze(1))
    less = model.answer(replace(read, seen=replace(read.seen, frame=other)), queries)
    change = (scores - less).gather(2, classes[..., None])[..., 0] - (scores - less).mean(dim=2)
    values = model.contributions(read, queries, classes)[..., place]
    torch.testing.assert_close(values, change, rtol=0, atol=1e-10)


def test_contributions_of_blocks_sum_to_their_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = network()
    monkeypatch.setattr(influence, "NODES", 40)
    episode, read = asked(model)
    queries = episode.query.features
    scores = model.answer(read, queries)
    classes = scores.argmax(dim=2)
    values = model.contributions(read, queries, classes)
    assert read.seen is not None
    # With all values zero, queries receive nothing.
    zeroed = tuple(
        replace(cache, values=torch.zeros_like(cache.values)) for cache in read.seen.layers
    )
    silent = model.answer(replace(read, seen=replace(read.seen, layers=zeroed)), queries)
    first = read.seen.weights.first_answer(read.seen.frame.relate(queries).candidates)
    base = (silent - first).gather(2, classes[..., None])[..., 0] - (silent - first).mean(dim=2)
    assert base.abs().amax() > 1e-3
    torch.testing.assert_close(values.sum(dim=2) + base, above_mean(scores), rtol=0, atol=1e-8)


def test_a_row_that_is_there_twice_adds_the_same_twice() -> None:
    model, episode = network(), random_episode((2, 3), queries=2)
    support = episode.support
    features = torch.cat([support.features, support.features[:, :1]], dim=1)
    indices = torch.cat([support.class_indices, support.class_indices[:, :1]], dim=1)
    twice = replace(support, features=features, class_indices=indices)
    read = model.read(twice, model.draw(twice, stream(0)))
    queries = episode.query.features
    classes = torch.zeros(queries.shape[:2], dtype=torch.int64)
    values = model.contributions(read, queries, classes)
    torch.testing.assert_close(values[..., 0], values[..., -1], rtol=0, atol=1e-10)


def test_few_nodes_are_enough() -> None:
    few, _ = contributions(network())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(influence, "NODES", 40)
        many, _ = contributions(network())
    error = (few - many).abs().amax()
    assert error < 0.02 * many.abs().amax()
