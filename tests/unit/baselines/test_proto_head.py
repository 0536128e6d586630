from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestCentroid

from helpers.builders import random_episode
from unitail.baselines.proto_head import ProtoHead, PrototypeVariant
from unitail.errors import InvalidConfig, InvalidEpisode
from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm

EPISODE = random_episode((3, 1, 2), queries=50, episodes=4)


def test_the_papers_variant_is_the_nearest_class_mean() -> None:
    answers = ProtoHead().infer(EPISODE.support, EPISODE.query.features).argmax(-1)
    for index in range(4):
        peer = NearestCentroid().fit(
            EPISODE.support.features[index].numpy(), EPISODE.support.class_indices[index].numpy()
        )
        expected = peer.predict(EPISODE.query.features[index].numpy())
        assert np.array_equal(answers[index].numpy(), expected)


def test_the_papers_probabilities_are_a_softmax_of_minus_squared_distances() -> None:
    support, query = EPISODE.support, EPISODE.query.features[0]
    means = torch.stack(
        [support.features[0, support.class_indices[0] == index].mean(dim=0) for index in range(3)]
    )
    squared = (query.unsqueeze(1) - means).pow(2).sum(dim=-1)
    answers = ProtoHead().infer(support, EPISODE.query.features)
    torch.testing.assert_close(answers[0], (-squared).log_softmax(-1))


def test_the_centred_variant_compares_directions_from_the_support_mean() -> None:
    support = EPISODE.support.features
    mean = support.mean(dim=1, keepdim=True)
    unit = torch.nn.functional.normalize(support - mean, dim=-1)
    prototypes = torch.stack(
        [
            unit[0, EPISODE.support.class_indices[0] == index].mean(dim=0)
            for index in range(EPISODE.ways)
        ]
    )
    cosine = torch.nn.functional.cosine_similarity(
        (EPISODE.query.features - mean)[0].unsqueeze(1), prototypes, dim=-1
    )
    answers = ProtoHead(PrototypeVariant.CENTRED).infer(EPISODE.support, EPISODE.query.features)
    torch.testing.assert_close(answers[0], (10 * cosine).log_softmax(-1))


def test_sharpness_multiplies_the_log_odds_of_the_centred_variant() -> None:
    plain, sharp = (
        ProtoHead(PrototypeVariant.CENTRED, sharpness=sharpness).infer(
            EPISODE.support, EPISODE.query.features
        )
        for sharpness in (1, 30)
    )
    torch.testing.assert_close(sharp - sharp[..., :1], 30 * (plain - plain[..., :1]))


@pytest.mark.parametrize("variant", PrototypeVariant)
def test_answers_are_log_probabilities(variant: PrototypeVariant) -> None:
    answers = ProtoHead(variant).infer(EPISODE.support, EPISODE.query.features)
    torch.testing.assert_close(answers.exp().sum(-1), torch.ones(4, 50, dtype=torch.float64))
    assert ProtoHead(variant).paradigm is Paradigm.EXPLICIT


def test_bad_queries_are_refused() -> None:
    with pytest.raises(InvalidEpisode, match="query features are not finite"):
        ProtoHead().infer(EPISODE.support, EPISODE.query.features * float("nan"))
    with pytest.raises(InvalidEpisode, match="feature width of the query differs"):
        ProtoHead().infer(EPISODE.support, EPISODE.query.features[..., :2])


def test_bad_supports_are_refused_before_any_query() -> None:
    support = EPISODE.support
    with pytest.raises(InvalidEpisode, match=r"got values from 1 to 3; allowed: 0 to 2"):
        ProtoHead().fit(replace(support, class_indices=support.class_indices + 1))
    with pytest.raises(InvalidEpisode, match="support features are not finite"):
        ProtoHead().fit(replace(support, features=support.features * float("nan")))


@pytest.mark.parametrize("offset", [1e3, 1e4])
def test_an_offset_of_all_features_changes_nothing(offset: float) -> None:
    support = Support(
        features=EPISODE.support.features.float() + offset,
        class_indices=EPISODE.support.class_indices,
        ways=EPISODE.ways,
    )
    query = EPISODE.query.features.float() + offset
    plain = ProtoHead().infer(EPISODE.support, EPISODE.query.features).float()
    torch.testing.assert_close(ProtoHead().infer(support, query), plain, atol=0.1, rtol=0.01)


def test_half_precision_features_are_taken() -> None:
    support = EPISODE.support.to("cpu", torch.float16)
    answers = ProtoHead().infer(support, EPISODE.query.features.half())
    assert answers.dtype == torch.float32


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="variant is unknown: got cosine; allowed: paper, cen"):
        ProtoHead("cosine")  # type: ignore[arg-type]
