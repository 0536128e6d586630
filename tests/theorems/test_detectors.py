"""Remark A.4: what reads label embeddings is trained in every episode, for all slots equally."""

from itertools import permutations

import pytest
import torch
from torch import Tensor

from helpers.builders import random_episode, small_model
from unitail.framework.episode import Episode
from unitail.nn.slot_model import Draw
from unitail.randomness import stream
from unitail.tail.model import Tail
from unitail.training.step import query_loss

SLOTS, WAYS = 4, 2
INJECTIONS = torch.tensor(list(permutations(range(SLOTS), WAYS)))  # (12, K), all of Inj([K], [M])
EPISODE = random_episode((2, 1), episodes=1)


def gradients(model: Tail, episode: Episode, injection: Tensor) -> dict[str, Tensor]:
    """Return the gradient of the episode's loss under this rho, by the name of the weight."""
    projection = model.draw(episode.support, stream(0)).projection
    loss = query_loss(model(episode, Draw(projection, injection.unsqueeze(0))), episode.query)
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def detectors(of: dict[str, Tensor]) -> dict[str, Tensor]:
    """Keep the weights that all slots share: the transformer, its input layer, the query marker."""
    return {name: grad for name, grad in of.items() if not name.startswith(("head", "labels.emb"))}


@pytest.mark.parametrize("hidden_dim", [8, 16])
@pytest.mark.parametrize("rho", range(len(INJECTIONS)))
def test_every_episode_trains_what_reads_the_labels(hidden_dim: int, rho: int) -> None:
    """Whichever slots are in use; with an input layer, its columns for the labels too."""
    model = small_model(dictionary_size=SLOTS, hidden_dim=hidden_dim)
    got = detectors(gradients(model, EPISODE, INJECTIONS[rho]))
    for name, gradient in got.items():
        assert gradient.abs().max() > 0, name
    if "tokens.entry.weight" in got:
        columns = got["tokens.entry.weight"][:, model.config.projected_dim :]
        assert (columns.abs().amax(dim=0) > 0).all()


def renamed(model: Tail, sigma: Tensor) -> Tail:
    """Return the same model with slot j called sigma(j)."""
    other = small_model(dictionary_size=SLOTS)
    weights = model.state_dict()
    for name in ("labels.embeddings", "head.weight", "head.bias"):
        weights[name] = weights[name][sigma.argsort()]
    other.load_state_dict(weights)
    return other


def test_slots_with_their_names_exchanged_train_the_detectors_alike() -> None:
    """By symmetry of rho: the sum over all rho does not tell one slot from another."""
    model, sigma = small_model(dictionary_size=SLOTS), torch.tensor([2, 0, 3, 1])
    totals = [
        [gradients(each, EPISODE, rho) for rho in INJECTIONS]
        for each in (model, renamed(model, sigma))
    ]
    here, there = ({name: sum(g[name] for g in all_) for name in all_[0]} for all_ in totals)
    for name, gradient in detectors(here).items():
        torch.testing.assert_close(there[name], gradient, rtol=0, atol=1e-12)
    for name in ("labels.embeddings", "head.weight", "head.bias"):
        torch.testing.assert_close(there[name], here[name][sigma.argsort()], rtol=0, atol=1e-12)
    single = gradients(renamed(model, sigma), EPISODE, INJECTIONS[0])
    difference = single["head.weight"] - gradients(model, EPISODE, INJECTIONS[0])["head.weight"]
    assert difference.abs().max() > 1e-3


def test_slots_share_the_episodes_evenly() -> None:
    """Each embedding has a gradient under K/M of all rho, and none under the others."""
    model = small_model(dictionary_size=SLOTS)
    trained = torch.stack(
        [gradients(model, EPISODE, rho)["labels.embeddings"].norm(dim=1) > 0 for rho in INJECTIONS]
    )
    assert trained.sum(dim=0).tolist() == [len(INJECTIONS) * WAYS // SLOTS] * SLOTS
