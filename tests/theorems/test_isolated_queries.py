"""Ours: under `isolated`, g(S, x) is a function of the support and one query."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given

from helpers.builders import Sizes, sizes, small_model
from unitail.framework.episode import Episode, Query, Support
from unitail.nn.random_projection import ProjectionKind, WidthReduction
from unitail.randomness import stream

MODEL = small_model()


@given(size=sizes(queries=9))
def test_a_batch_of_one_equals_a_batch_of_many(size: Sizes) -> None:
    episode = size.episode()
    draw = MODEL.draw(episode.support, stream(size.seed))
    together = MODEL(episode, draw)
    for index in range(size.queries):
        alone = Query(features=episode.query.features[:, index : index + 1])
        answer = MODEL(replace(episode, query=alone), draw)
        torch.testing.assert_close(answer[:, 0], together[:, index], rtol=0, atol=1e-10)


@given(size=sizes(queries=4))
def test_other_queries_do_not_matter(size: Sizes) -> None:
    episode = size.episode()
    draw = MODEL.draw(episode.support, stream(size.seed))
    others = 100 * torch.randn_like(episode.query.features)
    crowd = Query(features=torch.cat([others, episode.query.features], dim=1))
    answers = MODEL(Episode(support=episode.support, query=crowd), draw)[:, size.queries :]
    torch.testing.assert_close(answers, MODEL(episode, draw), rtol=0, atol=1e-10)


@given(size=sizes(queries=9))
def test_a_cached_support_and_any_chunk_size_give_the_same_answers(size: Sizes) -> None:
    episode = size.episode()
    draw = MODEL.draw(episode.support, stream(size.seed))
    direct = MODEL(episode, draw)
    read = MODEL.read(episode.support, draw)
    for chunk_size in (1, 2, 3, 100):
        chunks = torch.split(episode.query.features, chunk_size, dim=1)
        chunked = torch.cat([MODEL.answer(read, chunk) for chunk in chunks], dim=1)
        torch.testing.assert_close(chunked, direct, rtol=0, atol=1e-10)


@pytest.mark.parametrize("reduction", WidthReduction)
@pytest.mark.parametrize("projection", ProjectionKind)
@given(size=sizes())
def test_other_episodes_of_the_batch_do_not_matter(
    projection: ProjectionKind, reduction: WidthReduction, size: Sizes
) -> None:
    model = small_model(projection=projection, reduction=reduction)
    episode = size.episode()
    draw = model.draw(episode.support, stream(size.seed))
    support, query = episode.support, episode.query
    first = Episode(
        support=Support(
            features=support.features[:1],
            class_indices=support.class_indices[:1],
            ways=support.ways,
        ),
        query=Query(features=query.features[:1]),
    )
    alone = model(first, draw.select(slice(1)))
    torch.testing.assert_close(alone, model(episode, draw)[:1], rtol=0, atol=1e-10)
