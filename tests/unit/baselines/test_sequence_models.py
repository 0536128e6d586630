"""What SNAIL, GPICL and CAML share: one sequence for each query."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.builders import random_episode
from unitail.baselines.caml import Caml, CamlConfig
from unitail.baselines.gpicl import Gpicl, GpiclConfig
from unitail.baselines.snail import Snail, SnailConfig
from unitail.configuration import from_table, to_table
from unitail.errors import InvalidConfig, TooManyClasses, TooManyExamples, WrongWidth
from unitail.framework.episode import Episode
from unitail.nn.episode_model import AnyModel, Normalisation
from unitail.randomness import stream
from unitail.tasks.synthetic.gaussian import GaussianTasks
from unitail.training.step import query_loss

WIDTH, CLASSES = 8, 4
SNAIL = SnailConfig(
    feature_dim=WIDTH,
    classes=CLASSES,
    most_support=7,
    key_dims=(8, 8, 8),
    value_dims=(8, 8, 8),
    filters=8,
)
GPICL = GpiclConfig(
    projected_dim=16,
    classes=CLASSES,
    hidden_dim=32,
    layers=2,
    heads=4,
    mlp_dim=64,
    positions=8,
)
CAML = CamlConfig(feature_dim=WIDTH, classes=CLASSES, label_dim=8, layers=2, heads=2, mlp_dim=32)
MODELS: dict[str, tuple[Callable[..., AnyModel], Any]] = {
    "snail": (Snail, SNAIL),
    "gpicl": (Gpicl, GPICL),
    "caml": (Caml, CAML),
}
every_model = pytest.mark.parametrize("name", MODELS)


def model(name: str, *, seed: int = 0, **changes: object) -> AnyModel:
    kind, config = MODELS[name]
    return kind(replace(config, **changes), seed=seed)


def episode(shots: tuple[int, ...] = (2, 1, 3), **changes: Any) -> Episode:  # noqa: ANN401
    return random_episode(shots, feature_dim=WIDTH, **changes)


@every_model
@pytest.mark.parametrize("ways", [2, CLASSES])
def test_scores_are_of_the_tasks_classes_and_deterministic(name: str, ways: int) -> None:
    asked = episode((1,) * ways)
    network = model(name).double()
    draw = network.draw(asked.support, stream(0))
    scores = network(asked, draw)
    assert scores.shape == (2, 4, ways)
    assert scores.dtype == torch.float64
    assert torch.equal(scores, network(asked, draw))


@every_model
def test_an_answer_does_not_depend_on_what_else_is_asked(name: str) -> None:
    network, asked = model(name).double(), episode()
    assert network.visibility.isolates_queries
    read = network.read(asked.support, network.draw(asked.support, stream(0)))
    together = network.answer(read, asked.query.features)
    for size in (1, 3):
        chunks = torch.split(asked.query.features, size, dim=1)
        chunked = torch.cat([network.answer(read, chunk) for chunk in chunks], dim=1)
        torch.testing.assert_close(chunked, together, rtol=1e-10, atol=1e-12)


@every_model
def test_every_query_reads_a_sequence_of_its_own(name: str) -> None:
    network, asked, shapes = model(name).double(), episode(), []
    first_layer(network).register_forward_pre_hook(
        lambda _, inputs: shapes.append(inputs[0].shape[:2])
    )
    network(asked, network.draw(asked.support, stream(0)))
    assert shapes == [(2 * 4, 6 + 1)]
    assert network.work(6, 4, 2) == 4 * network.work(6, 1, 2)
    assert network.work(6, 1, 2) / network.work(13, 1, 2) == 7 / 14


@every_model
def test_every_part_of_the_episode_reaches_every_answer(name: str) -> None:
    network, asked = model(name).double(), episode(queries=1)
    draw = network.draw(asked.support, stream(0))
    features = asked.support.features.clone().requires_grad_()
    query = asked.query.features.clone().requires_grad_()
    support = replace(asked.support, features=features)
    moved = replace(asked, support=support, query=replace(asked.query, features=query))
    network(moved, draw)[..., 0].sum().backward()
    assert features.grad is not None
    assert query.grad is not None
    assert (features.grad.abs().amax(-1) > 1e-8).all()
    assert (query.grad.abs().amax(-1) > 1e-8).all()
    scores = network(asked, draw)
    for index in range(asked.support.num_support):
        labels = asked.support.class_indices.clone()
        labels[:, index] = (labels[:, index] + 1) % 3
        other = replace(asked, support=replace(asked.support, class_indices=labels))
        assert (network(other, draw) - scores).abs().amax() > 1e-6


@every_model
def test_the_seed_decides_the_weights_and_nothing_else_does(name: str) -> None:
    torch.manual_seed(1)
    first = model(name, seed=3).state_dict()
    torch.manual_seed(2)
    again, other = model(name, seed=3).state_dict(), model(name, seed=4).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


@every_model
def test_the_state_dict_is_the_whole_model(name: str) -> None:
    asked, network, other = episode(), model(name).double(), model(name, seed=5).double()
    draw = network.draw(asked.support, stream(0))
    assert not torch.allclose(network(asked, draw), other(asked, draw))
    other.load_state_dict(network.state_dict())
    assert torch.equal(network(asked, draw), other(asked, draw))


@every_model
def test_half_precision_trains_with_finite_gradients_for_every_weight(name: str) -> None:
    network, asked, types = model(name), episode((2,) * 3, dtype=torch.float32), []
    first_layer(network).register_forward_pre_hook(lambda _, inputs: types.append(inputs[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        scores = network(asked, network.draw(asked.support, stream(0)))
        loss = query_loss(scores.float(), asked.query)
    loss.backward()
    assert types == [torch.bfloat16]
    assert scores.dtype == torch.bfloat16
    for key, weight in network.named_parameters():
        assert weight.grad is not None, key
        assert weight.grad.isfinite().all(), key
        assert weight.grad.abs().max() > 0, key


@every_model
@pytest.mark.parametrize("normalisation", Normalisation)
def test_only_normalised_features_may_be_shifted_and_scaled(
    name: str, normalisation: Normalisation
) -> None:
    network, asked = model(name, normalisation=normalisation).double(), episode()
    draw = network.draw(asked.support, stream(0))
    shift = torch.randn(WIDTH, generator=stream(0), dtype=torch.float64)
    support = replace(asked.support, features=3 * asked.support.features + shift)
    query = replace(asked.query, features=3 * asked.query.features + shift)
    moved = replace(asked, support=support, query=query)
    difference = (network(moved, draw) - network(asked, draw)).abs().max()
    assert difference > 1e-2 if normalisation is Normalisation.NONE else difference < 1e-9


@every_model
def test_more_classes_than_it_was_built_for_are_refused(name: str) -> None:
    support = episode((1,) * (CLASSES + 1)).support
    with pytest.raises(TooManyClasses, match="got 5 classes; allowed: at most 4"):
        model(name).draw(support, stream(0))


@pytest.mark.parametrize("name", ["snail", "caml"])
def test_other_widths_are_refused(name: str) -> None:
    support = random_episode(feature_dim=WIDTH + 1).support
    with pytest.raises(WrongWidth, match="another width: got width 9; allowed: width 8"):
        model(name).draw(support, stream(0))


@pytest.mark.parametrize("name", ["snail", "gpicl"])
def test_longer_supports_than_it_was_built_for_are_refused(name: str) -> None:
    network, long = model(name), episode((4, 4)).support
    with pytest.raises(TooManyExamples, match="got 8 examples; allowed: at most 7"):
        network.read(long, network.draw(long, stream(0)))


@every_model
def test_configurations_survive_tables_and_refuse_unknown_ways(name: str) -> None:
    _, config = MODELS[name]
    assert from_table(type(config), to_table(config), "model") == config
    assert replace(config, normalisation="none").normalisation is Normalisation.NONE
    with pytest.raises(InvalidConfig, match="normalisation is unknown: got batch; allowed: supp"):
        replace(config, normalisation="batch")
    with pytest.raises(InvalidConfig, match="classes is out of range: got 1; allowed: 2 "):
        replace(config, classes=1)


@pytest.mark.slow
@every_model
def test_a_few_steps_of_training_teach_it_to_classify(name: str) -> None:
    """Three classes: chance is one in three."""
    tasks, generator = GaussianTasks(feature_dims=(WIDTH,), separation=(3, 4)), stream(0)

    def tried() -> tuple[Tensor, Tensor]:
        drawn = tasks.instances(episodes=8, ways=3, shots=2, queries=2, generator=generator)
        scores = network(drawn, network.draw(drawn.support, generator))
        hits = (scores.argmax(-1) == drawn.query.class_indices).float().mean()
        return query_loss(scores, drawn.query), hits

    network = model(name, classes=3)
    with torch.no_grad():
        untrained = sum(float(tried()[1]) for _ in range(10)) / 10
    optimiser = torch.optim.Adam(network.parameters(), lr=6e-3)
    for _ in range(80):
        optimiser.zero_grad()
        tried()[0].backward()
        optimiser.step()
    with torch.no_grad():
        trained = sum(float(tried()[1]) for _ in range(10)) / 10
    assert untrained < 0.5
    assert trained > 0.75


def first_layer(network: AnyModel) -> torch.nn.Module:
    if isinstance(network, Snail):
        return network.layers[0]
    assert isinstance(network, Gpicl | Caml)
    return network.transformer.blocks[0]
