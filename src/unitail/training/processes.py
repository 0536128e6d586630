"""The processes of a run: one, or several that each train on a part of every batch.

Processes are started by torchrun and set up by accelerate. The episodes of a batch depend on the
recipe alone; with N processes, process r trains on the r-th of N equal parts of them.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.nn.parallel import DistributedDataParallel

from unitail.errors import UserError
from unitail.nn.episode_model import AnyModel
from unitail.tasks.shapes import BatchPlan

if TYPE_CHECKING:
    from accelerate import Accelerator


class Processes:
    """One process among all: its device, its part of the work, and talk with the others."""

    def __init__(self, *, cpu: bool = False, shard: bool = False) -> None:
        self._accelerator = _accelerator(cpu=cpu)
        self._shard = shard

    @property
    def count(self) -> int:
        """The number of processes."""
        return int(self._accelerator.num_processes)

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        return torch.device(self._accelerator.device)

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and speaks."""
        return bool(self._accelerator.is_main_process)

    def part(self, plan: BatchPlan) -> slice:
        """Return this process's part of a batch."""
        return plan.part(self._accelerator.process_index, self.count)

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
        averaged: Tensor = self._accelerator.reduce(values, reduction="mean")
        return averaged

    def gather(self, values: Tensor) -> Tensor:
        """Join the values of all processes, in their order."""
        gathered: Tensor = self._accelerator.gather(values)
        return gathered

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in some process."""
        if self.count == 1:
            return flag
        return bool(self.gather(torch.tensor([flag], device=self.device)).any())

    def wait(self) -> None:
        """Wait for the others."""
        self._accelerator.wait_for_everyone()


def _accelerator(*, cpu: bool) -> "Accelerator":
    try:
        from accelerate import Accelerator
    except ImportError as error:
        raise UserError(
            "training needs accelerate",
            got=str(error),
            allowed="the package accelerate",
            remedy="Run `pip install 'unitail[train]'`.",
        ) from error
    # Precision is the recipe's business, whatever the launcher sets.
    return Accelerator(cpu=cpu, mixed_precision="no")
