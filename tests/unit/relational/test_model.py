from dataclasses import replace
from typing import Any

import pytest
import torch

from helpers.builders import flops, random_episode, random_support
from unitail.errors import InvalidConfig
from unitail.framework.episode import Episode
from unitail.learners.in_context import InContextLearner
from unitail.learners.pretrained import load_default
from unitail.nn.episode_model import NoDraw, Visibility
from unitail.relational import block as block_module
from unitail.relational.config import PRESETS, VISIBILITIES, RelationalConfig
from unitail.relational.joint_share import joint_share
from unitail.relational.model import Relational


def model(config: RelationalConfig = PRESETS["tiny"]) -> Relational:
    """Return a small model whose every weight matters."""
    network = Relational(config, seed=1).double()
    for weight in network.parameters():
        if not weight.any():
            torch.nn.init.normal_(weight, std=0.3, generator=torch.Generator())
    return network


def test_weights_are_the_seeds() -> None:
    first, second, other = (Relational(PRESETS["tiny"], seed=seed) for seed in (3, 3, 4))
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)
    )
    assert not torch.equal(first.head.weight, other.head.weight)


def test_before_training_answers_are_already_sensible() -> None:
    """The first answer is that of regressions: classes far apart are told apart."""
    generator = torch.Generator()
    means = 5 * torch.randn(1, 4, 10, generator=generator)
    support = means.repeat(1, 3, 1) + torch.randn(1, 12, 10, generator=generator)
    queries = means.repeat(1, 5, 1) + torch.randn(1, 20, 10, generator=generator)
    classes = torch.arange(4).repeat(5)
    episode = replace(random_support((3,) * 4, episodes=1), features=support)
    episode = replace(episode, class_indices=torch.arange(4).repeat(3)[None])
    answers = InContextLearner(Relational(PRESETS["default"])).infer(episode, queries)
    assert (answers.argmax(-1)[0] == classes).float().mean() > 0.9


@pytest.mark.parametrize("visibility", [Visibility.ISOLATED, Visibility.JOINT])
def test_one_set_of_weights_answers_both_ways(visibility: Visibility) -> None:
    network, episode = model(), random_episode()
    own = model(replace(PRESETS["tiny"], visibility=visibility))
    asked = network(episode, NoDraw(), visibility)
    assert torch.equal(asked, own(episode, NoDraw()))


def test_the_two_ways_differ() -> None:
    network, episode = model(), random_episode()
    isolated, joint = (
        network(episode, NoDraw(), visibility)
        for visibility in (Visibility.ISOLATED, Visibility.JOINT)
    )
    assert not torch.allclose(isolated, joint)


def test_joint_layers_are_for_joint_answers_alone() -> None:
    network, episode = model(), random_episode()
    before, after = [], []
    for answers in (before, after):
        answers += [network(episode, NoDraw(), way) for way in VISIBILITIES]
        torch.nn.init.zeros_(network.joint_blocks[0].mlp_out.weight)
    assert torch.equal(before[0], after[0])
    assert not torch.allclose(before[1], after[1])


def test_joint_layers_come_before_the_last() -> None:
    network = model(replace(PRESETS["tiny"], joint_layers=2))
    (first, last), joint = network.blocks, network.joint_blocks
    assert network.stack(jointly=True) == [first, *joint, last]
    assert network.stack() == [first, last]


def test_a_causal_order_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="got causal; allowed: isolated, joint"):
        model().read(random_support((1, 1)), NoDraw(), Visibility.CAUSAL)


def test_a_read_support_is_not_read_again() -> None:
    network, support = model().requires_grad_(False), random_support((5,) * 4, episodes=1)
    queries = random_episode((5,) * 4, queries=1, episodes=1).query.features
    read = network.read(support, NoDraw())
    answering = flops(lambda: network.answer(read, queries))
    assert answering < 0.2 * flops(lambda: network.read(support, NoDraw()))


@pytest.mark.parametrize("width", [1, 2, 10_000])
def test_any_width_is_answered(width: int) -> None:
    episode = random_episode((2, 2, 2), feature_dim=width)
    scores = model()(episode, NoDraw())
    assert scores.isfinite().all()


def test_hundreds_of_classes_are_answered() -> None:
    episode = random_episode((1,) * 300, episodes=1, queries=2, feature_dim=4, dtype=torch.float32)
    network = Relational(PRESETS["tiny"])
    with torch.no_grad():
        assert network(episode, NoDraw()).shape == (1, 2, 300)


@pytest.mark.parametrize("visibility", [Visibility.ISOLATED, Visibility.JOINT])
def test_how_many_states_are_worked_on_at_once_changes_nothing(
    visibility: Visibility, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, episode = model(), random_episode()
    whole = network(episode, NoDraw(), visibility)
    monkeypatch.setattr(block_module, "STATES_PER_CHUNK", 12)
    torch.testing.assert_close(network(episode, NoDraw(), visibility), whole)


def uneven_episode() -> Episode:
    """Return episodes that differ in the shots of their classes and in their order."""
    episode = random_episode((2, 1, 3), episodes=3)
    classes = torch.tensor([[0, 1, 2, 0, 2, 2], [2, 2, 0, 1, 1, 1], [1, 0, 0, 2, 0, 1]])
    return replace(episode, support=replace(episode.support, class_indices=classes))


def subset(episode: Episode, own: slice) -> Episode:
    """Keep some episodes of a batch."""
    support, query = episode.support, episode.query
    indices = support.class_indices[own]
    return Episode(
        support=replace(support, features=support.features[own], class_indices=indices),
        query=replace(query, features=query.features[own], class_indices=None),
    )


@pytest.mark.parametrize("visibility", VISIBILITIES)
def test_an_episode_does_not_mind_the_others_of_its_batch(
    visibility: Visibility,
) -> None:
    network, episode = model(), uneven_episode()
    together = network(episode, NoDraw(), visibility)
    for number in range(3):
        own = slice(number, number + 1)
        alone = network(subset(episode, own), NoDraw(), visibility)
        torch.testing.assert_close(alone, together[own])


def plain_answers(network: Relational, episode: Episode, visibility: Visibility) -> torch.Tensor:
    """Answer by the plain definition of blocks: nothing is kept, fused or cut into chunks."""
    if visibility is Visibility.JOINT and network.config.joint_yields:
        alone = plain_answers(network, episode, Visibility.ISOLATED)
        share = joint_share(network._relate(episode.support, episode.support.features)[0].frame)
        return share * plain_scores(network, episode, visibility) + (1 - share) * alone
    return plain_scores(network, episode, visibility)


def plain_scores(network: Relational, episode: Episode, visibility: Visibility) -> torch.Tensor:
    """Answer so, not yielding."""
    support, queries = episode.support, episode.query.features
    n, joint = support.num_support, visibility is Visibility.JOINT
    everything = torch.cat([support.features, queries], dim=1)
    seen, relations = network._relate(support, everything if joint else support.features)
    labels, size = seen.labels, seen.size
    states = network._initial_states(labels, queries.shape[1])
    if joint:
        for block in network.stack(jointly=True):
            states = block(states, states, labels, size, relations)
        return network._scores(states[:, n:], relations.candidates[:, :, n:], seen.weights)
    asked = seen.frame.relate(queries)
    states, answers = states[:, :n], states[:, n:]
    for block in network.stack():
        answers = block(answers, states, labels, size, asked)
        states = block(states, states, labels, size, relations)
    return network._scores(answers, asked.candidates, seen.weights)


@pytest.mark.parametrize("visibility", VISIBILITIES)
@pytest.mark.parametrize("changes", [{}, {"angles_from_origin": False}, {"layers": 1}], ids=str)
def test_answers_are_those_of_the_plain_definition(
    visibility: Visibility, changes: dict[str, Any]
) -> None:
    network, episode = model(replace(PRESETS["tiny"], **changes)), uneven_episode()
    expected = plain_answers(network, episode, visibility)
    torch.testing.assert_close(network(episode, NoDraw(), visibility), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("visibility", VISIBILITIES)
def test_the_shipped_weights_answer_as_the_plain_definition_does(visibility: Visibility) -> None:
    network = load_default(dtype=torch.float64)
    assert isinstance(network, Relational)
    episode = random_episode((5, 2, 3, 1, 4, 1, 2), queries=9, episodes=3, feature_dim=30)
    expected = plain_answers(network, episode, visibility)
    answers = network(episode, NoDraw(), visibility)
    torch.testing.assert_close(answers, expected, rtol=0, atol=1e-12)


def test_half_precision_trains() -> None:
    network, episode = Relational(PRESETS["tiny"]), random_episode(dtype=torch.float32)
    for visibility in (Visibility.ISOLATED, Visibility.JOINT):
        with torch.autocast("cpu", torch.bfloat16):
            loss = network(episode, NoDraw(), visibility).square().mean()
        loss.backward()
    assert all(weight.grad.isfinite().all() for weight in network.parameters())
