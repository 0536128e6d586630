"""What a run must remember to go on: weights and optimiser, whole, however they are spread."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from unitail.training.run_folder import TrainingState

WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)
SEPARATOR = "|"
"""Between the names of a weight and of what the optimiser keeps for it."""


def collect_state(model: nn.Module, optimiser: torch.optim.Optimizer) -> TrainingState:
    """Gather the state from all processes; on all but the first it may come out empty."""
    weights, table = _state_dicts(model, optimiser, WHOLE)
    kept = {
        f"{name}{SEPARATOR}{quantity}": value
        for name, quantities in table.get("state", {}).items()
        for quantity, value in quantities.items()
    }
    return TrainingState(weights=weights, optimiser=kept)


def collect_weights(model: nn.Module) -> dict[str, Tensor]:
    """Gather the weights alone; see `collect_state`."""
    weights: dict[str, Any] = get_model_state_dict(model, options=WHOLE)
    return weights


def restore_state(model: nn.Module, optimiser: torch.optim.Optimizer, state: TrainingState) -> None:
    """Give every process its share of a state that was collected before."""
    _, table = _state_dicts(model, optimiser, StateDictOptions(full_state_dict=True))
    quantities: dict[str, Any] = {}
    for name, value in state.optimiser.items():
        weight, quantity = name.split(SEPARATOR)
        quantities.setdefault(weight, {})[quantity] = value
    table = {"state": quantities, "param_groups": table["param_groups"]}
    set_model_state_dict(model, dict(state.weights), options=StateDictOptions(full_state_dict=True))
    lenient = StateDictOptions(full_state_dict=True, strict=False)
    set_optimizer_state_dict(model, optimiser, table, options=lenient)
    for name, parameter in model.named_parameters():
        if name.removeprefix("module.") not in quantities:  # idle in all steps so far
            optimiser.state.pop(parameter, None)


def _state_dicts(
    model: nn.Module, optimiser: torch.optim.Optimizer, options: StateDictOptions
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Name the optimiser's quantities by weight, and undo whatever the model is wrapped in."""
    weights, table = get_state_dict(model, optimiser, options=options)
    return weights, table
