"""The processes of a run: one, or several that each train on a shard of every batch.

Processes are started by torchrun and set up by accelerate. The episodes of a batch depend only on
the recipe; with N processes, process r trains on the r-th of N equal shards.
"""

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.nn.parallel import DistributedDataParallel

from unitail.errors import optional
from unitail.nn.episode_model import AnyModel
from unitail.processes import ProcessGroup, has_accelerator, launched


class Processes(ProcessGroup):
    """A run's processes as seen by one: its device, its part of the model, and collectives."""

    def __init__(self, *, cpu: bool = False, shard: bool = False) -> None:
        accelerate = optional("accelerate", extra="train")
        cpu = cpu or (launched() > 1 and not has_accelerator())
        # The recipe decides the precision, whatever the launcher sets.
        super().__init__(accelerate.Accelerator(cpu=cpu, mixed_precision="no"))
        self._shard = shard

    @property
    def device(self) -> torch.device:
        """Device of this process."""
        return torch.device(self._state.device)

    def distribute(self, model: AnyModel) -> nn.Module:
        """Move the model to the device and replicate it, or shard it over the processes."""
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
        """Concatenate the values of all processes, in rank order."""
        gathered: Tensor = self._state.gather(values)
        return gathered

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set in any process."""
        if self.count == 1:
            return flag
        return bool(self.gather(torch.tensor([flag], device=self.device)).any())
