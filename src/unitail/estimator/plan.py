"""What fitting and predicting will take, before anything is run."""

from dataclasses import dataclass

import numpy as np
import torch

from unitail.configuration import require
from unitail.estimator.choices import prepared
from unitail.estimator.fitted import Reading, check_joint_call
from unitail.estimator.reduction import ROUNDS, class_quota, support_limit
from unitail.estimator.rehearsal import Cost, Speed, rehearse, speed_of
from unitail.learners.budget import queries_at_once
from unitail.nn.episode_model import AnyModel

USUAL_WIDTH = 1024
"""The width that a plan is made for if none is known."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of a task."""

    support: int
    classes: int
    queries: int
    width: int

    def __post_init__(self) -> None:
        require(self.classes >= 2, "n_classes", got=self.classes, allowed="2 or more")
        fine = self.support >= self.classes
        allowed = f"at least one for each of {self.classes} classes"
        require(fine, "n_support", got=self.support, allowed=allowed)
        require(self.queries >= 1, "n_queries", got=self.queries, allowed="1 or more")
        require(self.width >= 1, "n_features", got=self.width, allowed="1 or more")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a fit and a prediction will take."""

    memory_bytes: int
    """The most memory at once: the rows, and all that the model makes of them."""
    seconds: float
    """Time of both on this machine as it is now; rough, within a factor of three or so."""
    chunk_size: int | None
    """The queries that are answered together; None where all of them see each other."""
    reduced: bool
    """Whether the support is reduced before it is read."""
    support_read: int
    """The rows that the model reads."""
    precision: str
    """The number type of the computation."""

    def __str__(self) -> str:
        reduced = ", after a reduction" if self.reduced else ""
        together = "all queries" if self.chunk_size is None else f"{self.chunk_size} queries"
        return (
            f"{self.support_read} rows read{reduced}, {together} at a time, in {self.precision}: "
            f"about {self.memory_bytes / 1e9:.2g} GB and {self.seconds:.2g} s"
        )


def make_plan(reading: Reading, sizes: Sizes) -> Plan:
    """Plan for classes of equal size."""
    kept = _rows_read(reading, sizes)
    dtype = reading.precision.dtype(kept, reading.device)
    model = prepared(reading.model, reading.device, dtype)
    chunk, at_once = _chunk(reading, sizes, model, kept)
    read, answer = rehearse(
        model,
        num_support=kept,
        ways=sizes.classes,
        feature_dim=sizes.width,
        num_queries=at_once,
        visibility=reading.visibility,
    )
    speed = speed_of(reading.device, dtype)
    chunks = sizes.queries / at_once
    seconds = reading.num_draws * (speed.seconds(read) + chunks * speed.seconds(answer))
    reduced = kept < sizes.support
    return Plan(
        memory_bytes=_memory(reading.num_draws, sizes, model, read, answer),
        seconds=seconds + (_clustering_seconds(sizes, kept, speed) if reduced else 0),
        chunk_size=chunk,
        reduced=reduced,
        support_read=kept,
        precision=str(dtype).removeprefix("torch."),
    )


def _rows_read(reading: Reading, sizes: Sizes) -> int:
    limit = support_limit(reading.max_support, sizes.classes)
    if limit is None or sizes.support <= limit:
        return sizes.support
    shots = np.full(sizes.classes, sizes.support // sizes.classes)
    shots[: sizes.support % sizes.classes] += 1
    return int(np.minimum(shots, class_quota(shots, limit)).sum())


def _chunk(reading: Reading, sizes: Sizes, model: AnyModel, kept: int) -> tuple[int | None, int]:
    """Return the chunk size, and how many queries are answered together at most."""
    if not reading.visibility.isolates_queries:
        return None, check_joint_call(sizes.queries, reading.max_support)
    chunk = reading.chunk_size or queries_at_once(model, kept, sizes.classes)
    return chunk, min(chunk, sizes.queries)


def _memory(draws: int, sizes: Sizes, model: AnyModel, read: Cost, answer: Cost) -> int:
    """Add up what there is at the worst moment; each draw keeps its own reading."""
    others = (draws - 1) * read.kept_bytes
    weights = sum(weight.nbytes for weight in model.parameters())
    rows = (sizes.support + sizes.queries) * sizes.width * torch.float64.itemsize
    return weights + rows + others + max(read.peak_bytes, answer.peak_bytes)


def _clustering_seconds(sizes: Sizes, kept: int, speed: Speed) -> float:
    centres = kept / sizes.classes
    operations = 2 * ROUNDS * sizes.support * centres * sizes.width
    return operations / speed.operations
