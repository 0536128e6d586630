"""Engines by the names that users give."""

from enum import StrEnum

from unitail.configuration import choice, require
from unitail.engines.engine import Engine
from unitail.engines.local import LocalEngine


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
    require(gpus >= 0, "--gpus-per-worker", got=gpus, allowed="0 or more, such as 0.25")
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
