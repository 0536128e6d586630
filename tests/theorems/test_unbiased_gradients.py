"""Proposition A.2 (unbiased gradients): E_rho[grad_{e_j} l] = K/M E[grad_{e_j} l | j in S]."""

from itertools import permutations

import torch
from torch import Tensor

from helpers.builders import random_episode, small_model
from unitail.framework.episode import Episode
from unitail.nn.slot_model import Draw, draw_injections
from unitail.randomness import stream
from unitail.tail.model import Tail
from unitail.training.step import query_loss

SLOTS, WAYS, DRAWS = 5, 2, 20_000
MODEL = small_model(dictionary_size=SLOTS)
EPISODE = random_episode((2, 1), episodes=1)


def embedding_gradient(model: Tail, episode: Episode, injection: Tensor) -> Tensor:
    """Return the gradient of the episode's loss with respect to all embeddings, (M, d_label)."""
    projection = model.draw(episode.support, stream(0)).projection
    loss = query_loss(model(episode, Draw(projection, injection.unsqueeze(0))), episode.query)
    (gradient,) = torch.autograd.grad(loss, model.labels.embeddings)
    return gradient


INJECTIONS = torch.tensor(list(permutations(range(SLOTS), WAYS)))  # (20, K), all of Inj([K], [M])
GRADIENTS = torch.stack([embedding_gradient(MODEL, EPISODE, rho) for rho in INJECTIONS])


def test_an_embedding_that_is_not_in_use_has_no_gradient() -> None:
    used = (INJECTIONS.unsqueeze(-1) == torch.arange(SLOTS)).any(dim=1)  # (20, M)
    norms = GRADIENTS.norm(dim=-1)
    assert (norms[~used] == 0).all()
    assert (norms[used] > 0).all()


def test_the_mean_gradient_over_draws_is_the_conditional_one_times_k_over_m() -> None:
    """Monte Carlo over the model's own law of rho, against the exact right-hand side."""
    drawn = draw_injections(DRAWS, WAYS, SLOTS, stream(0, "monte carlo"))
    which = (drawn.unsqueeze(1) == INJECTIONS).all(dim=-1).int().argmax(dim=1)  # (DRAWS,)
    sample = GRADIENTS[which].flatten(1)  # (DRAWS, M * d_label)
    used = (INJECTIONS.unsqueeze(-1) == torch.arange(SLOTS)).any(dim=1)
    conditional = GRADIENTS.sum(dim=0) / used.sum(dim=0).unsqueeze(-1)  # (M, d_label)

    expected = (WAYS / SLOTS * conditional).flatten()
    error = (sample.mean(dim=0) - expected) / (sample.std(dim=0) / DRAWS**0.5)
    assert error.abs().max() < 4.5  # 20 coordinates: a right law fails once in 7,000 seeds
    half = (WAYS / SLOTS * conditional / 2).flatten()
    assert ((sample.mean(dim=0) - half) / (sample.std(dim=0) / DRAWS**0.5)).abs().max() > 4.5
