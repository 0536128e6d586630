"""Estimates of the memory and time that a fit and a prediction will take, without running them.

The model is traced on fake tensors, which have shapes but no values. Its operations are counted and
converted to seconds by the measured speed of this machine.
"""

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

from unitail.errors import require
from unitail.estimator.fitted import ReadingRule, check_joint_call
from unitail.estimator.rows import MAX_POOL, MAX_ROUNDS
from unitail.estimator.settings import Settings
from unitail.framework.episode import Support
from unitail.learners.in_context import MAX_ROWS, queries_at_once
from unitail.nn.episode_model import AnyModel, Visibility
from unitail.randomness import stream
from unitail.relational.large.cost import SHARE_OF_SPEED, large_cost
from unitail.relational.model import Relational


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of a task."""

    support: int
    classes: int
    queries: int
    width: int
    pool: int = 0

    def __post_init__(self) -> None:
        require(self.classes >= 2, "n_classes", got=self.classes, allowed="2 or more")
        allowed = f"at least one for each of {self.classes} classes"
        require(self.support >= self.classes, "n_support", got=self.support, allowed=allowed)
        require(self.queries >= 1, "n_queries", got=self.queries, allowed="1 or more")
        require(self.width >= 1, "n_features", got=self.width, allowed="1 or more")
        require(self.pool >= 0, "n_pool", got=self.pool, allowed="0 or more")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Estimated memory and time of a fit and a prediction."""

    memory_bytes: int
    """Peak memory: the rows, the weights, and all tensors of the model."""
    seconds: float
    """Total time on this machine under its current load, within a factor of about three."""
    chunk_size: int | None
    """Number of queries answered together; None if all of them see each other."""
    reduced: bool
    """Whether the support is reduced before it is read."""
    support_read: int
    """Number of labelled rows that the model reads."""
    pool_read: int
    """Number of unlabelled rows that it reads as well."""
    precision: str
    """The dtype of the computation."""

    def __str__(self) -> str:
        reduced = ", after a reduction" if self.reduced else ""
        reduced += f", plus {self.pool_read} unlabelled rows" if self.pool_read else ""
        together = "all queries" if self.chunk_size is None else f"{self.chunk_size} queries"
        return (
            f"{self.support_read} rows read{reduced}, {together} at a time, in {self.precision}: "
            f"about {self.memory_bytes / 1e9:.2g} GB and {self.seconds:.2g} s"
        )


def make_plan(settings: Settings, sizes: Sizes) -> Plan:
    """Return the plan for these sizes, assuming classes of equal size."""
    rule = ReadingRule.of(settings, sizes.classes, sizes.width, pooled=sizes.pool > 0)
    if rule.is_large(sizes.support):
        return _plan_large(settings, sizes)
    kept = rule.kept(sizes.support, sizes.classes)
    pool = min(sizes.pool, MAX_POOL)
    model = settings.learner(kept + pool).model
    if settings.visibility.isolates_queries:
        chunk = settings.chunk_size or queries_at_once(model, kept + pool, sizes.classes)
        at_once = min(chunk, sizes.queries)
    else:
        check_joint_call(sizes.queries, settings.max_support)
        chunk, at_once = None, sizes.queries
    read, answer = trace_cost(
        model,
        num_support=kept,
        ways=sizes.classes,
        feature_dim=sizes.width,
        num_queries=at_once,
        visibility=settings.visibility,
        num_pool=pool,
    )
    dtype = next(model.parameters()).dtype
    speed = speed_of(settings.device, dtype)
    answering = sizes.queries / at_once * speed.seconds(answer)
    draws = 1 if model.only_draw else settings.num_draws
    seconds = draws * (speed.seconds(read) + answering) * len(settings.parts or (1,))
    if kept < sizes.support:
        centres = kept / sizes.classes
        seconds += 2 * MAX_ROUNDS * sizes.support * centres * sizes.width / speed.operations
    return Plan(
        memory_bytes=_memory(draws, sizes, model, read, answer),
        seconds=seconds,
        chunk_size=chunk,
        reduced=kept < sizes.support,
        support_read=kept,
        pool_read=pool,
        precision=str(dtype).removeprefix("torch."),
    )


def _plan_large(settings: Settings, sizes: Sizes) -> Plan:
    """Return the plan for a large support, which is read without pairs of rows."""
    model = settings.learner(sizes.support).model
    assert isinstance(model, Relational)
    dtype = next(model.parameters()).dtype
    counts = sizes.support, sizes.width, sizes.classes, sizes.queries
    chunk = settings.chunk_size or MAX_ROWS
    cost = large_cost(model.config, *counts, at_once=chunk, itemsize=dtype.itemsize)
    speed = speed_of(settings.device, dtype)
    return Plan(
        memory_bytes=cost.memory_bytes,
        seconds=(cost.operations / speed.operations + cost.moved_bytes / speed.bytes)
        / SHARE_OF_SPEED,
        chunk_size=chunk,
        reduced=False,
        support_read=sizes.support,
        pool_read=0,
        precision=str(dtype).removeprefix("torch."),
    )


def _memory(draws: int, sizes: Sizes, model: AnyModel, read: "Cost", answer: "Cost") -> int:
    """Return the peak memory in bytes; each draw keeps its own reading of the support."""
    weights = sum(weight.nbytes for weight in model.parameters())
    rows = (sizes.support + sizes.queries + sizes.pool) * sizes.width * torch.float64.itemsize
    return weights + rows + (draws - 1) * read.kept_bytes + max(read.peak_bytes, answer.peak_bytes)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of a sequence of tensor operations."""

    peak_bytes: int
    """Peak memory of tensors, including those that existed before."""
    kept_bytes: int
    """Memory still in use afterwards."""
    operations: int
    """Number of floating-point operations in matrix products and inverses."""
    moved_bytes: int
    """Bytes written to new tensors."""
    calls: int
    """Number of tensor operations called."""


@dataclass(frozen=True)
class Speed:
    """What a device does per second."""

    operations: float
    bytes: float
    calls: float

    def seconds(self, cost: Cost) -> float:
        """Estimate the seconds for this cost; roughly, as operations overlap or wait."""
        return (
            cost.operations / self.operations
            + cost.moved_bytes / self.bytes
            + cost.calls / self.calls
        )


def trace_cost(
    model: AnyModel,
    *,
    num_support: int,
    ways: int,
    feature_dim: int,
    num_queries: int,
    visibility: Visibility,
    num_pool: int = 0,
) -> tuple[Cost, Cost]:
    """Count the cost of reading a support and a pool, and of then answering all queries at once."""
    draw = model.draw_for(
        episodes=1, ways=ways, feature_dim=feature_dim, generator=stream(0, device=model.device)
    )
    dtype = next(model.parameters()).dtype
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():

        def rows(count: int) -> Tensor:
            return torch.empty(1, count, feature_dim, dtype=dtype, device=model.device)

        indices = torch.zeros(1, num_support, dtype=torch.int64, device=model.device)
        support = Support(features=rows(num_support), class_indices=indices, ways=ways)
        count, ledger = FlopCounterMode(display=False, custom_mapping=INVERSES), _MemoryTracker()
        with count, ledger:
            read = model.read(support, draw, visibility, rows(num_pool) if num_pool else None)
            reading = ledger.cost(count.get_total_flops())
        with count, ledger:  # the flop count restarts, the ledger continues
            model.answer(read, rows(num_queries))
            return reading, ledger.cost(count.get_total_flops())


@cache
def speed_of(device: torch.device, dtype: torch.dtype) -> Speed:
    """Measure the speed of a device; takes a fraction of a second."""
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
    """Return the shortest of five run times, in seconds."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return min(times)


def _cubes(shape: Any, *_: Any, **__: Any) -> int:  # noqa: ANN401 - as torch calls it
    """Count n³ operations for each matrix."""
    return int(torch.Size(shape[:-2]).numel() * shape[-1] ** 3)


def _two_cubes(*shapes: Any, **__: Any) -> int:  # noqa: ANN401
    return 2 * _cubes(shapes[0])


INVERSES = {
    torch.ops.aten.linalg_cholesky_ex: _cubes,
    torch.ops.aten.cholesky_inverse: _two_cubes,
}
"""Operations that torch's own count leaves out; approximate to within a third."""


class _MemoryTracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tracks the memory of all tensors created within its context."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sizes: dict[int, int] = {}
        self._now = self._peak = self._moved = self._calls = 0

    def cost(self, operations: int) -> Cost:
        """Return the cost since the last call, and start counting anew."""
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
