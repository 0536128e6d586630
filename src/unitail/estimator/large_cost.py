"""What it takes to read a support without pairs of rows, counted by hand.

Such a reading walks over the rows in chunks, as often as they need; to rehearse it on tensors
without values would be to walk as often.
"""

from dataclasses import dataclass

from unitail.relational.large import (
    COSINES,
    FEW_STEPS,
    MANY_WAYS,
    MAX_SOFTMAX,
    num_asked,
    num_neighbours,
)
from unitail.relational.moments import CHUNK
from unitail.relational.neighbours import CELLS as INDEX_CELLS
from unitail.relational.neighbours import GAUSSIANS, MAX_EXACT, PROBES, QUERIES
from unitail.relational.regressions import LOGISTIC_STEPS, NUM_CANDIDATES, NUM_LOGISTIC

CENTRES = 4
SEEN = 12
"""Arrays of a chunk's size while its rows are seen from all centres."""
SCORES = 6
"""Arrays of scores, of the asked rows or of a chunk, at once."""


@dataclass(frozen=True, kw_only=True)
class LargeCost:
    """What a reading and some answers cost."""

    memory_bytes: int
    """The most at once, with the rows themselves as they are kept in double precision."""
    operations: float
    moved_bytes: float


def large_cost(rows: int, width: int, ways: int, queries: int, itemsize: int) -> LargeCost:
    """Count for rows of a width, classes and queries, in numbers of so many bytes."""
    many = ways > MANY_WAYS
    logistic = 0 if rows * ways > MAX_SOFTMAX else 1 if many else NUM_LOGISTIC
    taken, size = FEW_STEPS if many else LOGISTIC_STEPS, num_neighbours(rows, ways)
    asked = num_asked(rows, ways)
    products = 2.0 * rows * width**2 * (CENTRES + logistic)
    steps = taken * logistic * 4.0 * rows * width * ways
    solved = 2.0 * len(COSINES) * (width**3 + width**2 * ways)
    searched = rows if rows <= MAX_EXACT else rows * PROBES / INDEX_CELLS
    near = len(GAUSSIANS) * size**3 / 3 + 2 * size**2 * width
    neighbours = (asked + queries) * (2.0 * searched * width + near)
    walks = 4 if logistic else 3
    steps_moved = taken * (2 * width + logistic * SCORES * ways) if logistic else 0
    moved = itemsize * rows * (walks * SEEN * width + steps_moved)

    chunk = min(rows, CHUNK // max(width, ways))
    seen = SEEN * chunk * width * itemsize + SCORES * chunk * logistic * ways * itemsize
    kept = 8 * width**2 * (CENTRES + 4 * max(1, logistic)) + 8 * CENTRES * ways * width
    solutions = NUM_CANDIDATES * width * ways * itemsize
    evidence = SCORES * NUM_CANDIDATES * asked * ways * itemsize
    local = QUERIES * (size**2 * 4 + size * width * 2) * itemsize
    index = rows * (width * 4 + 8) if rows > MAX_EXACT else 0
    entered = (rows + queries) * width * (8 + itemsize * (2 if logistic else 1))
    memory = entered + index + kept + 3 * solutions + max(seen, evidence, local)
    return LargeCost(
        memory_bytes=int(memory),
        operations=products + steps + solved + neighbours,
        moved_bytes=float(moved),
    )
