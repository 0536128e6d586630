from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from helpers.builders import random_episode
from unitail.baselines.linear_probe import LinearProbe, ProbeVariant, shrunk_mean
from unitail.errors import InvalidConfig, InvalidEpisode
from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm

EPISODE = random_episode((3, 1, 2), queries=50, episodes=4)
TUNED = LinearProbe(ProbeVariant.TUNED)


def trained_by_torch(support: Support, index: int) -> nn.Linear:
    """Train a layer on one episode with autograd and torch's own Adam."""
    layer = nn.Linear(support.feature_dim, support.ways, dtype=support.features.dtype)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    adam = torch.optim.Adam(layer.parameters(), lr=1e-4)
    for _ in range(150):
        adam.zero_grad()
        logits = layer(support.features[index])
        F.cross_entropy(logits, support.class_indices[index]).backward()
        adam.step()
    return layer


@pytest.mark.parametrize("index", [0, 3])
def test_the_papers_variant_is_150_steps_of_torchs_adam(index: int) -> None:
    layer = trained_by_torch(EPISODE.support, index)
    classifier = LinearProbe().fit(EPISODE.support)
    weights, bias = classifier.weights[index, :-1], classifier.weights[index, -1]
    torch.testing.assert_close(weights, layer.weight.detach().mT, atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(bias, layer.bias.detach(), atol=1e-12, rtol=1e-9)
    expected = layer(EPISODE.query.features[index]).log_softmax(-1).detach()
    torch.testing.assert_close(classifier(EPISODE.query.features)[index], expected)


def centred_unit(features: Tensor, support: Tensor) -> np.ndarray:
    centred = features.double().numpy() - support.double().numpy().mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    unit: np.ndarray = centred / lengths
    return unit


@pytest.mark.parametrize(
    ("shots", "feature_dim"),
    [((1,) * 5, 30), ((5,) * 5, 30), ((1, 6, 2), 12), ((4, 2), 8), ((2,) * 20, 60), ((8, 5, 6), 3)],
)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-5), (torch.float32, 1e-3)])
def test_the_tuned_variant_is_scikit_learns_logistic_regression(
    shots: Sequence[int], feature_dim: int, dtype: torch.dtype, atol: float
) -> None:
    episode = random_episode(shots, feature_dim=feature_dim, queries=10, dtype=dtype)
    support, query = episode.support, replace(episode.query, features=episode.query.features + 1)
    answers = LinearProbe(ProbeVariant.TUNED, strength=7).infer(support, query.features)
    assert answers.dtype == dtype
    for index, own in enumerate(support.features):
        peer = LogisticRegression(C=7, tol=1e-10, max_iter=100_000)
        peer.fit(centred_unit(own, own), support.class_indices[index].numpy())
        expected = peer.predict_proba(centred_unit(query.features[index], own))
        probabilities = answers[index].exp().double()
        torch.testing.assert_close(probabilities, torch.from_numpy(expected), atol=atol, rtol=0)


def unit_from_shrunk_centre(features: Tensor, support: Tensor) -> np.ndarray:
    """James and Stein's centre, written out row by row."""

    def unit(rows: np.ndarray) -> np.ndarray:
        return np.stack([row / np.linalg.norm(row) for row in rows])

    shown = unit(support.numpy())
    mean = shown.mean(axis=0)
    variance = np.cov(shown.T).trace() / len(shown)
    centre = max(0.0, 1 - variance / (mean @ mean)) * mean
    return unit(unit(features.numpy()) - centre)


@pytest.mark.parametrize("offset", [0.0, 0.3, 3.0])  # the centre: the origin, between, the mean
@pytest.mark.parametrize("shots", [(1,) * 5, (5,) * 5, (4, 2)])
def test_the_shrunk_variant_is_scikit_learns_around_james_and_steins_centre(
    shots: Sequence[int], offset: float
) -> None:
    episode = random_episode(shots, feature_dim=30, queries=10)
    support = replace(episode.support, features=episode.support.features + offset)
    queries = episode.query.features + offset
    answers = LinearProbe(ProbeVariant.SHRUNK, strength=7).infer(support, queries).exp()
    for index, own in enumerate(support.features):
        peer = LogisticRegression(C=7, tol=1e-10, max_iter=100_000)
        peer.fit(unit_from_shrunk_centre(own, own), support.class_indices[index].numpy())
        expected = peer.predict_proba(unit_from_shrunk_centre(queries[index], own))
        torch.testing.assert_close(answers[index], torch.from_numpy(expected), atol=1e-5, rtol=0)


def test_the_centre_shrinks_to_the_origin_where_the_mean_could_be_chance() -> None:
    opposite = torch.tensor([[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.1, -1.0]]])
    alike = torch.tensor([[[1.0, 0.1], [1.0, -0.1], [1.0, 0.0]]])
    assert shrunk_mean(opposite).tolist() == [[[0.0, 0.0]]]
    assert 0.99 < shrunk_mean(alike)[0, 0, 0] < 1
    assert shrunk_mean(torch.zeros(1, 1, 2)).tolist() == [[[0.0, 0.0]]]


@pytest.mark.parametrize("variant", ProbeVariant)
def test_an_episodes_answers_do_not_depend_on_the_others(variant: ProbeVariant) -> None:
    support, query = EPISODE.support, EPISODE.query.features
    scale = torch.tensor([1, 100, 0, 1e-3])[:, None, None]  # they need unequal numbers of steps
    support = replace(support, features=support.features * scale)
    probe = LinearProbe(variant, strength=30)
    together = probe.infer(support, query)
    for index in range(4):
        one = slice(index, index + 1)
        alone = replace(
            support, features=support.features[one], class_indices=support.class_indices[one]
        )
        torch.testing.assert_close(
            probe.infer(alone, query[one]), together[one], atol=1e-10, rtol=0
        )


@pytest.mark.parametrize("variant", ProbeVariant)
def test_answers_are_log_probabilities(variant: ProbeVariant) -> None:
    probe = LinearProbe(variant)
    answers = probe.infer(EPISODE.support, EPISODE.query.features)
    torch.testing.assert_close(answers.exp().sum(-1), torch.ones(4, 50, dtype=torch.float64))
    assert probe.paradigm is Paradigm.EXPLICIT


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_equal_rows_give_the_shares_of_the_classes(dtype: torch.dtype) -> None:
    row = torch.tensor([0.1, -1e3, 1 / 3], dtype=dtype)
    support = Support(
        features=row.expand(1, 6, 3), class_indices=torch.tensor([[0, 1, 1, 2, 2, 2]]), ways=3
    )
    answers = TUNED.infer(support, row.expand(1, 1, 3)).exp()
    torch.testing.assert_close(answers, torch.tensor([[[1, 2, 3]]], dtype=dtype) / 6)


def test_rows_at_the_support_mean_are_taken() -> None:
    features = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]])
    support = Support(features=features, class_indices=torch.tensor([[0, 1, 2]]), ways=3)
    answers = TUNED.infer(support, features)
    assert answers.isfinite().all()
    assert answers.argmax(-1).tolist() == [[0, 1, 2]]


def test_the_intercept_is_free_of_the_penalty() -> None:
    weak = LinearProbe(ProbeVariant.TUNED, strength=1e-6)
    answers = weak.infer(EPISODE.support, EPISODE.query.features).exp()
    shares = (torch.tensor([3, 1, 2]) / 6).double().expand_as(answers)
    torch.testing.assert_close(answers, shares, atol=1e-4, rtol=0)


@pytest.mark.parametrize("offset", [1e3, 1e4])
def test_an_offset_of_all_features_changes_nothing(offset: float) -> None:
    support, query = EPISODE.support, EPISODE.query.features
    moved = replace(support, features=support.features.float() + offset)
    plain = TUNED.infer(support, query).float()
    torch.testing.assert_close(TUNED.infer(moved, query.float() + offset), plain, atol=0.05, rtol=0)


@pytest.mark.parametrize("variant", ProbeVariant)
def test_half_precision_features_are_taken(variant: ProbeVariant) -> None:
    support = EPISODE.support.to("cpu", torch.float16)
    answers = LinearProbe(variant).infer(support, EPISODE.query.features.half())
    assert answers.dtype == torch.float32


def test_bad_queries_are_refused() -> None:
    with pytest.raises(InvalidEpisode, match="query features are not finite"):
        LinearProbe().infer(EPISODE.support, EPISODE.query.features * float("nan"))
    with pytest.raises(InvalidEpisode, match="feature width of the query differs"):
        LinearProbe().infer(EPISODE.support, EPISODE.query.features[..., :2])


def test_bad_supports_are_refused_before_any_query() -> None:
    support = EPISODE.support
    with pytest.raises(InvalidEpisode, match=r"got values from 1 to 3; allowed: 0 to 2"):
        LinearProbe().fit(replace(support, class_indices=support.class_indices + 1))
    with pytest.raises(InvalidEpisode, match="support features are not finite"):
        TUNED.fit(replace(support, features=support.features * float("nan")))


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="variant is unknown: got svm; allowed: paper, tuned"):
        LinearProbe("svm")  # type: ignore[arg-type]


@pytest.mark.parametrize("strength", [0, -1, float("inf"), float("nan")])
def test_a_strength_without_meaning_is_refused(strength: float) -> None:
    with pytest.raises(InvalidConfig, match=r"strength is out of range: got .*; allowed: above 0"):
        LinearProbe(strength=strength)


def test_the_usual_strength_is_the_one_that_was_chosen_on_training_data() -> None:
    report = (Path(__file__).parents[3] / "results" / "probe_strength.md").read_text()
    assert f"C = {TUNED.strength:g} has the best NLL: it is the default." in report
