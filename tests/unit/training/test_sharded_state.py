import copy

import torch
from torch import nn

from unitail.training.sharded_state import collect_state, restore_state


def step(model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    model(torch.ones(1, 3)).sum().backward()
    optimiser.step()


def test_a_restored_optimiser_goes_on_as_if_nothing_had_happened() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(3):
        step(model, optimiser)
    state = copy.deepcopy(collect_state(model, optimiser))
    assert set(state.optimiser) >= {"0.weight|exp_avg", "2.bias|exp_avg_sq", "2.bias|step"}

    other = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    other_optimiser = torch.optim.Adam(other.parameters(), lr=0.1)
    restore_state(other, other_optimiser, state)
    step(model, optimiser)
    step(other, other_optimiser)
    for mine, its in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, its)
