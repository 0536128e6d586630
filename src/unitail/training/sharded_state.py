"""Collect and restore the full state of weights and optimiser, however they are sharded."""

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

FULL_STATE_ON_CPU = StateDictOptions(full_state_dict=True, cpu_offload=True)
"""Gathers the state of all processes in the memory of the first."""
SEPARATOR = "|"
"""Separates the name of a weight from the name of an optimiser quantity."""


def collect_state(model: nn.Module, optimiser: torch.optim.Optimizer) -> TrainingState:
    """Gather the state from all processes; it may be empty on all but the first."""
    weights, table = _state_dicts(model, optimiser, FULL_STATE_ON_CPU)
    optimiser_state = {
        f"{name}{SEPARATOR}{quantity}": value
        for name, quantities in table.get("state", {}).items()
        for quantity, value in quantities.items()
    }
    return TrainingState(weights=weights, optimiser=optimiser_state)


def collect_weights(model: nn.Module) -> dict[str, Tensor]:
    """Gather only the weights; see `collect_state`."""
    weights: dict[str, Any] = get_model_state_dict(model, options=FULL_STATE_ON_CPU)
    return weights


def restore_state(model: nn.Module, optimiser: torch.optim.Optimizer, state: TrainingState) -> None:
    """Load a state from `collect_state`, each process its own shard."""
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
        if name.removeprefix("module.") not in quantities:  # unused in all steps so far
            optimiser.state.pop(parameter, None)


def _state_dicts(
    model: nn.Module, optimiser: torch.optim.Optimizer, options: StateDictOptions
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return state dicts keyed by weight name, without the prefixes of model wrappers."""
    weights, table = get_state_dict(model, optimiser, options=options)
    return weights, table
