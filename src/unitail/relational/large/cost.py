"""What it takes to read a support without pairs of rows, counted by hand.

Such a reading walks over the rows in chunks, as often as they need; to rehearse it on tensors
without values would be to walk as often.
"""

from dataclasses import dataclass

from unitail.relational.large.committee import num_members
from unitail.relational.large.first_answer import (
    COSINES,
    has_logistic,
    is_sparse,
    num_evidence_rows,
)
from unitail.relational.large.gaussians import GAUSSIANS, NEAR, QUERIES, num_guides
from unitail.relational.large.moments import CHUNK
from unitail.relational.large.neighbours import CELLS as INDEX_CELLS
from unitail.relational.large.neighbours import MAX_SEARCHED, PROBES
from unitail.relational.large.shortlist import ASKED, MANY_WAYS, num_known
from unitail.relational.regressions import (
    LOGISTIC_STEPS,
    NUM_CANDIDATES,
    NUM_LOGISTIC,
    NUM_OPERATORS,
)

CENTRES, BLOCKS, CARRIERS, VALUES = 4, 3, 9, 4
"""Of the shipped model: heads and operators carry values for each class."""
STATE, PAIR = 25_000, 16
"""Operations of a block on a state; numbers for a pair of members."""
SEEN = 12
"""Arrays of a chunk's size while its rows are seen from all centres."""
SCORES = 6
"""Arrays of scores, of the asked rows or of a chunk, at once."""
SHARE_OF_SPEED = 0.2
"""How much of a device's speed such a reading reaches: 0.23 of it with 50,000 rows, two threads."""


@dataclass(frozen=True, kw_only=True)
class LargeCost:
    """What a reading and some answers cost."""

    memory_bytes: int
    """The most at once, with the rows themselves as they are kept in double precision."""
    operations: float
    moved_bytes: float


def large_cost(
    rows: int, width: int, ways: int, queries: int, *, at_once: int, itemsize: int
) -> LargeCost:
    """Count for rows of a width and classes; queries come `at_once`, numbers have `itemsize`."""
    given, width = width, min(width, rows + 1)
    logistic = NUM_LOGISTIC if has_logistic(rows, ways, width) else 0
    taken, asked = LOGISTIC_STEPS, num_evidence_rows(rows, ways)
    products = 2.0 * rows * width**2 * (CENTRES + logistic)
    steps = taken * logistic * 4.0 * rows * width * ways
    solved = 2.0 * len(COSINES) * (width**3 + width**2 * ways)
    walks = 4 if logistic else 3
    steps_moved = taken * (2 * width + logistic * SCORES * ways) if logistic else 0
    moved = itemsize * rows * (walks * SEEN * width + steps_moved)
    each = [
        _gaussians(rows, width, ways, queries),
        _committee(rows, width, ways, queries, min(queries, at_once)),
    ]

    chunk = min(rows, CHUNK // max(width, ways))
    seen = SEEN * chunk * width * itemsize + SCORES * chunk * logistic * ways * itemsize
    kept = 8 * width**2 * (CENTRES + 4 * max(1, logistic)) + 8 * CENTRES * ways * width
    solutions = NUM_CANDIDATES * width * ways * itemsize
    evidence = SCORES * NUM_CANDIDATES * asked * ways * itemsize
    index = rows * (width * 4 + 8) if rows > MAX_SEARCHED else 0
    entered = (rows + queries) * (8 * given + width * itemsize * (2 if logistic else 1))
    memory = entered + index + kept + 3 * solutions + sum(part.kept for part in each) * itemsize
    memory += max(seen, evidence, *(part.at_once * itemsize for part in each))
    return LargeCost(
        memory_bytes=int(memory),
        operations=products + steps + solved + sum(part.operations for part in each),
        moved_bytes=float(moved + sum(part.moved for part in each) * itemsize),
    )


@dataclass(frozen=True)
class _Part:
    """Operations; numbers that are moved, stay, and are there at once."""

    operations: float
    moved: float
    kept: int
    at_once: int


def _gaussians(rows: int, width: int, ways: int, queries: int) -> _Part:
    """Count the regressions on Gaussian kernels."""
    count, guides = 1 if is_sparse(rows, ways, width) else len(GAUSSIANS), num_guides(rows)
    if not guides:
        operations = count * (rows**3 + 2.0 * rows**2 * width) + 2 * queries * rows * (width + ways)
        kept = count * rows * (rows + ways)
        return _Part(operations, count * 6.0 * rows**2, kept, 5 * rows**2 + queries * rows)
    asked = queries + max(0, num_evidence_rows(rows, ways) - guides)
    searched = rows if rows <= MAX_SEARCHED else rows * PROBES / INDEX_CELLS
    near = 2.0 * NEAR**2 * (guides + width) + NEAR**3
    read = count * (3.0 * rows * guides**2 + 2.0 * rows * guides * width + guides**3)
    local = QUERIES * NEAR * (NEAR * 4 + guides + width * 3)
    return _Part(
        read + asked * (2.0 * searched * width + near + guides**2),
        count * 6.0 * rows * guides,
        count * (rows * guides + 2 * guides**2),
        local + 3 * guides**2 * 2,
    )


def _committee(rows: int, width: int, ways: int, queries: int, at_once: int) -> _Part:
    """Count the blocks, three of a usual size."""
    members = num_members(rows, ways)
    known, listed = (ways, ways) if ways <= MANY_WAYS else (num_known(members) + 1, ASKED + 1)
    pairs, states = members**2, members * known
    inverses = NUM_OPERATORS * (width**3 if members < rows else 0) + members**3
    blocks = BLOCKS * (states + queries * listed) * STATE
    heard = BLOCKS * 2.0 * CARRIERS * (members + queries) * members * VALUES * known
    return _Part(
        inverses + 2.0 * (1 + NUM_OPERATORS) * pairs * width + blocks + heard,
        pairs * PAIR * 2.0 + (states + queries * listed) * STATE / 40,
        pairs + NUM_OPERATORS * width**2 + BLOCKS * states * CARRIERS * VALUES,
        pairs * PAIR + states * 300 + at_once * members,
    )
