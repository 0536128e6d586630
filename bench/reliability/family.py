"""A family of bad input makes a case of a seed and a number; what families share."""

import random
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from seed_inputs import Seeds

from unitail.errors import UserError

OUT = "out.csv"


@dataclass
class Case:
    """Something to run in a folder, and what it may leave there."""

    arguments: tuple[object, ...] = ()
    work: Callable[[], object] | None = None
    """In place of the command."""
    out: str | None = None
    """The file of answers."""
    rows: int | None = None
    """How many it must have, if that is known."""
    kept: set[str] = field(default_factory=set)
    """What was there before."""
    read: Callable[[], object] | None = None
    """Reads the same input in Python, far sooner than the command."""


Make = Callable[[Seeds, Path, random.Random], Case]


@dataclass(frozen=True)
class Family:
    """Cases of one kind."""

    name: str
    title: str
    weight: int
    make: Make
    reads: bool
    """Whether its inputs are read in Python, too."""
    encoders: tuple[str, ...]
    """Those that its commands use."""
    seeds: tuple[str, ...]
    """The kinds of sound inputs that it needs."""

    def __call__(self, seeds: Seeds, folder: Path, chance: random.Random) -> Case:
        """Make a case in a folder."""
        return self.make(seeds, folder, chance)


def family(
    title: str, weight: int, *encoders: str, seeds: str = "", reads: bool = True
) -> Callable[[Make], Family]:
    """Make a family of a function; so many of 100 commands are of it."""

    def named(make: Make) -> Family:
        kinds = tuple(seeds.split())
        return Family(make.__name__, title, weight, make, reads, encoders, kinds)

    return named


def answered(examples: object, query: object, *more: object, rows: int | None = None) -> Case:
    """Return a case of `unitail predict`."""
    arguments = ("predict", examples, query, "--out", OUT, *more)
    return Case(arguments, out=OUT, rows=rows)


def called(work: Callable[[], object]) -> Case:
    """Return a case of a call in Python, whose errors are told as the command tells them."""

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
