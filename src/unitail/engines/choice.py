"""Choose an engine from the options of the command line."""

import math
from dataclasses import dataclass
from enum import StrEnum

from unitail.answer_defaults import CHUNK_ROWS
from unitail.engines.engine import Engine
from unitail.engines.local import LocalEngine
from unitail.errors import InvalidConfig, choice, require


class EngineName(StrEnum):
    """Names of the engines."""

    LOCAL = "local"
    """This process, or several processes on this machine."""
    RAY = "ray"
    """A Ray cluster."""


@dataclass(frozen=True)
class EngineChoice:
    """The user's choice of an engine and its settings."""

    name: str = EngineName.LOCAL
    workers: int | None = None
    address: str | None = None
    gpus: float = 0.0
    chunk_rows: int = CHUNK_ROWS

    @property
    def is_plain(self) -> bool:
        """Whether this process does all the work itself."""
        alone = self.name == EngineName.LOCAL and self.workers in (None, 1)
        return alone and self.address is None and not self.gpus

    def device(self, name: str) -> str:
        """Return the device of the workers: by default the CPU if they get no GPU of a cluster."""
        without = self.name == EngineName.RAY and not self.gpus
        return "cpu" if without and name == "auto" else name

    def check(self) -> None:
        """Raise an error for names and numbers that make no sense, without connecting."""
        name, workers, gpus = choice(EngineName, self.name, "--engine"), self.workers, self.gpus
        require(workers is None or workers >= 1, "--workers", got=workers, allowed="1 or more")
        allowed = "0 or more, such as 0.25"
        require(0 <= gpus < math.inf, "--gpus-per-worker", got=gpus, allowed=allowed)
        if name is EngineName.LOCAL and (self.address is not None or gpus):
            raise InvalidConfig(
                "--address and --gpus-per-worker are for a cluster",
                got="--engine local",
                allowed="with --engine ray",
                remedy="Add --engine ray, or leave them out.",
            )

    def make(self) -> Engine:
        """Return the engine, by default with one process, or as many workers as fit on a cluster.

        One on a cluster connects to it.
        """
        self.check()
        if self.name == EngineName.LOCAL:
            return LocalEngine(self.workers or 1)
        from unitail.engines.ray_cluster import RayEngine

        return RayEngine(self.workers, address=self.address, gpus=self.gpus)
