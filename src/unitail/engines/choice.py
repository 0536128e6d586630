"""Choose an engine from the options of the command line."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from unitail.engines.engine import Engine
from unitail.engines.local import LocalEngine
from unitail.errors import choice, require


class EngineName(StrEnum):
    """Names of the engines."""

    LOCAL = "local"
    """This process, or several processes on this machine."""
    RAY = "ray"
    """A Ray cluster."""


def choose_engine(
    name: str, workers: int | None = None, *, address: str | None = None, gpus: float = 0.0
) -> Engine:
    """Return an engine; by default with one process, or as many workers as fit on the cluster."""
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
    """The user's choice of an engine and its settings."""

    name: str = EngineName.LOCAL
    workers: int | None = None
    address: str | None = None
    gpus: float = 0.0
    chunk_rows: int = 256

    @property
    def is_plain(self) -> bool:
        """Whether this process does all the work itself."""
        alone = self.name == EngineName.LOCAL and self.workers in (None, 1)
        return alone and self.address is None and not self.gpus

    def streams(self, names: Iterable[str]) -> bool:
        """Return whether rows are processed in chunks: with workers, or from an address."""
        return not self.is_plain or any(map(is_address, names))

    def device(self, name: str) -> str:
        """Return the device of the workers: by default the CPU if they get no GPU of a cluster."""
        without = self.name == EngineName.RAY and not self.gpus
        return "cpu" if without and name == "auto" else name

    def make(self) -> Engine:
        """Return the engine; one on a cluster connects to it."""
        return choose_engine(self.name, self.workers, address=self.address, gpus=self.gpus)


def is_address(name: str) -> bool:
    """Return whether a name is an address, such as s3://bucket/x, and not a path."""
    return "://" in name
