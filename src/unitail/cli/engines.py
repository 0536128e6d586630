"""What commands with `--engine` and `--workers` share."""

from collections.abc import Iterable
from dataclasses import dataclass

import typer

from unitail.engines.choice import EngineName, choose_engine
from unitail.engines.engine import Engine
from unitail.engines.sources import Rows
from unitail.engines.storage import is_address
from unitail.wording import numbered


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


def tell_rows(rows: Rows) -> None:
    """Say what was found."""
    number = rows.source.total
    count = "rows as they come" if number is None else numbered(number, "row")
    where = f", in the column {rows.reading.column!r}" if rows.reading.column else ""
    typer.echo(f"{rows.reading.modality}: {count}{where}.")
    for note in rows.notes:
        typer.echo(f"Noted: {note}.")
