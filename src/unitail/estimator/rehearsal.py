"""What a model would cost, found by running it on tensors that have shapes but no values."""

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.flop_counter import FlopCounterMode

from unitail.framework.episode import Support
from unitail.nn.episode_model import AnyModel
from unitail.nn.visibility import Visibility
from unitail.randomness import stream


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a stretch of work costs."""

    peak_bytes: int
    """The most memory that its tensors take at once, with what was there before."""
    kept_bytes: int
    """The memory that stays taken."""
    operations: int
    """Floating-point operations in matrix products and inverses."""
    moved_bytes: int
    """What is written into new tensors."""
    calls: int
    """Calls of tensor operations."""


@dataclass(frozen=True)
class Speed:
    """What a device does in a second."""

    operations: float
    bytes: float
    calls: float

    def seconds(self, cost: Cost) -> float:
        """Estimate the time of some work; roughly, since parts of it overlap or wait."""
        return (
            cost.operations / self.operations
            + cost.moved_bytes / self.bytes
            + cost.calls / self.calls
        )


def rehearse(
    model: AnyModel,
    *,
    num_support: int,
    ways: int,
    feature_dim: int,
    num_queries: int,
    visibility: Visibility,
) -> tuple[Cost, Cost]:
    """Count what it costs to read a support, and then to answer queries in one go."""
    draw = model.draw_for(
        episodes=1, ways=ways, feature_dim=feature_dim, generator=stream(0, device=model.device)
    )
    dtype = next(model.parameters()).dtype
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():

        def rows(count: int) -> Tensor:
            return torch.empty(1, count, feature_dim, dtype=dtype, device=model.device)

        indices = torch.zeros(1, num_support, dtype=torch.int64, device=model.device)
        support = Support(features=rows(num_support), class_indices=indices, ways=ways)
        count, ledger = FlopCounterMode(display=False, custom_mapping=INVERSES), _Ledger()
        with count, ledger:
            read = model.read(support, draw, visibility)
            reading = ledger.cost(count.get_total_flops())
        with count, ledger:  # the count starts anew, the ledger goes on
            model.answer(read, rows(num_queries))
            return reading, ledger.cost(count.get_total_flops())


@cache
def speed_of(device: torch.device, dtype: torch.dtype) -> Speed:
    """Measure a device for a fraction of a second."""
    generator = stream(0, "speed", device=device)
    side, length = 512, 2**21
    matrix = torch.rand(side, side, dtype=dtype, device=device, generator=generator)
    vector = torch.rand(length, dtype=dtype, device=device, generator=generator)
    small = vector[:16]
    return Speed(
        operations=2 * side**3 / _best_time(lambda: matrix @ matrix, device),
        bytes=length * dtype.itemsize / _best_time(lambda: vector + 1, device),
        calls=1 / _best_time(lambda: small + 1, device),
    )


def _best_time(work: Callable[[], object], device: torch.device) -> float:
    """Return the shortest of a few times."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return min(times)


def _cubes(shape: Any, *_: Any, **__: Any) -> int:  # noqa: ANN401 - as torch calls it
    """n³ for each matrix."""
    return int(torch.Size(shape[:-2]).numel() * shape[-1] ** 3)


def _two_cubes(*shapes: Any, **__: Any) -> int:  # noqa: ANN401
    return 2 * _cubes(shapes[0])


INVERSES = {
    torch.ops.aten.linalg_inv_ex: _two_cubes,
    torch.ops.aten.linalg_cholesky_ex: _cubes,
    torch.ops.aten.cholesky_inverse: _two_cubes,
    torch.ops.aten.cholesky_solve: _two_cubes,
    torch.ops.aten.linalg_solve_triangular: _cubes,
}
"""Torch's own count leaves them out; about, a third more or less."""


class _Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keep account of the memory of tensors that are made within."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sizes: dict[int, int] = {}
        self._now = self._peak = self._moved = self._calls = 0

    def cost(self, operations: int) -> Cost:
        """Close the account, and open the next."""
        cost = Cost(
            peak_bytes=self._peak,
            kept_bytes=self._now,
            operations=operations,
            moved_bytes=self._moved,
            calls=self._calls,
        )
        self._peak, self._moved, self._calls = self._now, 0, 0
        return cost

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN204
        made = func(*args, **(kwargs or {}))
        self._calls += 1
        for value in tree_iter(made):
            if isinstance(value, Tensor):
                self._enter(value.untyped_storage())
        return made

    def _enter(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key not in self._sizes:  # a view shares the memory of another tensor
            self._sizes[key] = size = storage.nbytes()
            self._now += size
            self._moved += size
            self._peak = max(self._peak, self._now)
            weakref.finalize(storage, self._leave, key)

    def _leave(self, key: int) -> None:
        self._now -= self._sizes.pop(key)
