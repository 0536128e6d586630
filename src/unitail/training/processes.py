"""The processes of a run: one, or several that each train on a part of every batch.

Processes are started by torchrun and set up by accelerate. The episodes of a batch depend on the
recipe alone; with N processes, process r trains on the r-th of N equal parts of them.
"""

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.nn.parallel import DistributedDataParallel

from unitail.devices import has_accelerator
from unitail.errors import optional
from unitail.nn.episode_model import AnyModel
from unitail.processes import ProcessGroup, launched


class Processes(ProcessGroup):
    """One process among all: its device, its copy or shard of the model, talk with the others."""

    def __init__(self, *, cpu: bool = False, shard: bool = False) -> None:
        accelerate = optional("accelerate", extra="train")
        cpu = cpu or (launched() > 1 and not has_accelerator())
        # Precision is the recipe's business, whatever the launcher sets.
        super().__init__(accelerate.Accelerator(cpu=cpu, mixed_precision="no"))
        self._shard = shard

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        return torch.device(self._state.device)

    def distribute(self, model: AnyModel) -> nn.Module:
        """Let the model train with the others: replicated, or sharded over them."""
        model.to(self.device)
        if self.count == 1:
            return model
        if not self._shard:
            devices = [self.device] if self.device.type == "cuda" else None
            idle = model.weights_may_idle
            return DistributedDataParallel(model, devices, find_unused_parameters=idle)
        for unit in model.shard_units():
            fully_shard(unit)
            for method in unit.entry_points:
                register_fsdp_forward_method(unit, method)
        fully_shard(model)  # in place
        return model

    def mean(self, values: Tensor) -> Tensor:
        """Average over the processes."""
        averaged: Tensor = self._state.reduce(values, reduction="mean")
        return averaged

    def gather(self, values: Tensor) -> Tensor:
        """Join the values of all processes, in their order."""
        gathered: Tensor = self._state.gather(values)
        return gathered

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in some process."""
        if self.count == 1:
            return flag
        return bool(self.gather(torch.tensor([flag], device=self.device)).any())
