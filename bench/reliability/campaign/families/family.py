"""A family of bad input creates a case from a seed and a number; shared code of families."""

import random
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from campaign.seed_inputs import Seeds
from unitail.errors import UserError

OUT = "out.csv"


@dataclass
class Case:
    """A command to run in a folder, and the files it may leave."""

    arguments: tuple[object, ...] = ()
    work: Callable[[], object] | None = None
    """Function to call instead of the command."""
    out: str | None = None
    """Name of the file of predictions."""
    rows: int | None = None
    """Number of rows it must have, if known."""
    kept: set[str] = field(default_factory=set)
    """Names of files that existed before."""
    read: Callable[[], object] | None = None
    """Reads the same input in Python, much faster than the command."""


Make = Callable[[Seeds, Path, random.Random], Case]


@dataclass(frozen=True)
class Family:
    """A kind of bad input."""

    name: str
    title: str
    weight: int
    make: Make
    reads: bool
    """Whether its inputs are also read in Python."""
    encoders: tuple[str, ...]
    """Encoders that its commands use."""
    seeds: tuple[str, ...]
    """Kinds of intact inputs that it needs."""

    def __call__(self, seeds: Seeds, folder: Path, generator: random.Random) -> Case:
        """Create a case in a folder."""
        return self.make(seeds, folder, generator)


def family(
    title: str, weight: int, *encoders: str, seeds: str = "", reads: bool = True
) -> Callable[[Make], Family]:
    """Turn a function into a family with `weight` of 100 commands."""

    def named(make: Make) -> Family:
        kinds = tuple(seeds.split())
        return Family(make.__name__, title, weight, make, reads, encoders, kinds)

    return named


def answered(examples: object, query: object, *more: object, rows: int | None = None) -> Case:
    """Return a case of `unitail predict`."""
    arguments = ("predict", examples, query, "--out", OUT, *more)
    return Case(arguments, out=OUT, rows=rows)


def called(work: Callable[[], object]) -> Case:
    """Return a case of a Python call whose errors are reported as by the command."""

    def run() -> None:
        warnings.simplefilter("default")
        try:
            work()
        except (UserError, ValueError, TypeError) as error:
            if not str(error).strip():
                raise
            text = str(error).replace("\n", " ")
            print(f"unitail: {text}", file=sys.stderr)
            raise SystemExit(2) from None

    return Case(work=run)
