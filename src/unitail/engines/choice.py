"""Who does the work, as users say it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from unitail.engines.engine import Engine
from unitail.engines.local import LocalEngine
from unitail.errors import choice, require


class EngineName(StrEnum):
    """Who does the work."""

    LOCAL = "local"
    """This process, or several of this machine."""
    RAY = "ray"
    """A cluster of Ray."""


def choose_engine(
    name: str, workers: int | None = None, *, address: str | None = None, gpus: float = 0.0
) -> Engine:
    """Return the engine; without `workers` one process, or as many as the cluster has room for."""
    engine = choice(EngineName, name, "--engine")
    require(workers is None or workers >= 1, "--workers", got=workers, allowed="1 or more")
    require(0 <= gpus < math.inf, "--gpus-per-worker", got=gpus, allowed="0 or more, such as 0.25")
    if engine is EngineName.LOCAL:
        require(
            address is None and gpus == 0,
            "--address and --gpus-per-worker",
            got="the local engine",
            allowed="with --engine ray",
        )
        return LocalEngine(workers or 1)
    from unitail.engines.ray_cluster import RayEngine

    return RayEngine(workers, address=address, gpus=gpus)


@dataclass(frozen=True)
class EngineChoice:
    """Who is to do the work."""

    name: str = EngineName.LOCAL
    workers: int | None = None
    address: str | None = None
    gpus: float = 0.0
    chunk_rows: int = 256

    @property
    def is_plain(self) -> bool:
        """Whether this process alone does it."""
        alone = self.name == EngineName.LOCAL and self.workers in (None, 1)
        return alone and self.address is None and not self.gpus

    def streams(self, names: Iterable[str]) -> bool:
        """Tell whether rows go to workers a chunk at a time: many workers, or files elsewhere."""
        return not self.is_plain or any(map(is_address, names))

    def device(self, name: str) -> str:
        """Return where workers compute: on the CPU, if they are to have no GPU of a cluster."""
        without = self.name == EngineName.RAY and not self.gpus
        return "cpu" if without and name == "auto" else name

    def make(self) -> Engine:
        """Start the workers."""
        return choose_engine(self.name, self.workers, address=self.address, gpus=self.gpus)


def is_address(name: str) -> bool:
    """Tell an address, such as s3://bucket/x, from the path of a file."""
    return "://" in name
