"""Estimated memory and time of reading a support without pairs of rows, by hand-written formulas.

Such a reading passes over all rows several times in chunks. A dry run on the meta device would need
as many passes, so the cost is counted instead.
"""

from dataclasses import dataclass

from unitail.relational.config import RelationalConfig
from unitail.relational.geometry import Centre
from unitail.relational.large.committee import num_members
from unitail.relational.large.first_answer import (
    COSINES,
    has_logistic,
    is_sparse,
    num_evidence_rows,
)
from unitail.relational.large.gaussians import GAUSSIANS, NEAR, SOLVED_AT_ONCE, num_inducing
from unitail.relational.large.moments import NUMBERS_AT_ONCE
from unitail.relational.large.neighbours import CELLS as INDEX_CELLS
from unitail.relational.large.neighbours import MAX_SEARCHED, PROBES
from unitail.relational.large.shortlist import LISTED_PER_QUERY, MAX_UNLISTED_WAYS, num_known
from unitail.relational.regressions import (
    LOGISTIC_STEPS,
    NUM_CANDIDATES,
    NUM_LOGISTIC,
    NUM_OPERATORS,
)

CENTRES = len(Centre)
STATE, PAIR = 25_000, 16
"""Operations of a block per state, and numbers per pair of members."""
SEEN = 12
"""Arrays as large as a chunk, while directions of its rows from all centres are computed."""
SCORES = 6
"""Arrays of scores at once, for the rows of evidence or for a chunk."""
SHARE_OF_SPEED = 0.2
"""Share of a device's speed that a reading reaches; 0.23 with 50,000 rows on two threads."""


@dataclass(frozen=True, kw_only=True)
class LargeCost:
    """The cost of a reading and some answers."""

    memory_bytes: int
    """Peak memory, with the rows themselves in double precision."""
    operations: float
    moved_bytes: float


def large_cost(
    config: RelationalConfig,
    rows: int,
    width: int,
    ways: int,
    queries: int,
    *,
    at_once: int,
    itemsize: int,
) -> LargeCost:
    """Return the cost of reading `rows` rows and answering `queries` queries, `at_once` at a time.

    `itemsize` is the size of a number in bytes.
    """
    feature_width, width = width, min(width, rows + 1)  # as `Span` reduces it
    logistic = NUM_LOGISTIC if has_logistic(rows, ways, width) else 0
    evidence_rows = num_evidence_rows(rows, ways)
    products = 2.0 * rows * width**2 * (CENTRES + logistic)
    steps = LOGISTIC_STEPS * logistic * 4.0 * rows * width * ways
    solved = 2.0 * len(COSINES) * (width**3 + width**2 * ways)
    passes = 4 if logistic else 3
    steps_moved = LOGISTIC_STEPS * (2 * width + logistic * SCORES * ways) if logistic else 0
    moved = itemsize * rows * (passes * SEEN * width + steps_moved)
    parts = [
        _gaussians(rows, width, ways, queries),
        _committee(config, rows, width, ways, queries, min(queries, at_once)),
    ]

    chunk = min(rows, NUMBERS_AT_ONCE // max(width, ways))
    seen = SEEN * chunk * width * itemsize + SCORES * chunk * logistic * ways * itemsize
    kept = 8 * width**2 * (CENTRES + 4 * max(1, logistic)) + 8 * CENTRES * ways * width
    solutions = NUM_CANDIDATES * width * ways * itemsize
    evidence = SCORES * NUM_CANDIDATES * evidence_rows * ways * itemsize
    index = rows * (width * 4 + 8) if rows > MAX_SEARCHED else 0
    features = (rows + queries) * (8 * feature_width + width * itemsize * (2 if logistic else 1))
    memory = features + index + kept + 3 * solutions + sum(part.kept for part in parts) * itemsize
    memory += max(seen, evidence, *(part.at_once * itemsize for part in parts))
    return LargeCost(
        memory_bytes=int(memory),
        operations=products + steps + solved + sum(part.operations for part in parts),
        moved_bytes=float(moved + sum(part.moved for part in parts) * itemsize),
    )


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Operations, and how many numbers are moved, kept, and in memory at once."""

    operations: float
    moved: float
    kept: int
    at_once: int


def _gaussians(rows: int, width: int, ways: int, queries: int) -> _Part:
    """Return the cost of the regressions on Gaussian kernels."""
    count, inducing = 1 if is_sparse(rows, ways, width) else len(GAUSSIANS), num_inducing(rows)
    if not inducing:
        operations = count * (rows**3 + 2.0 * rows**2 * width) + 2 * queries * rows * (width + ways)
        kept = count * rows * (rows + ways)
        return _Part(
            operations=operations,
            moved=count * 6.0 * rows**2,
            kept=kept,
            at_once=5 * rows**2 + queries * rows,
        )
    local_queries = queries + max(0, num_evidence_rows(rows, ways) - inducing)
    searched = rows if rows <= MAX_SEARCHED else rows * PROBES / INDEX_CELLS
    near = 2.0 * NEAR**2 * (inducing + width) + NEAR**3
    read = count * (3.0 * rows * inducing**2 + 2.0 * rows * inducing * width + inducing**3)
    local = SOLVED_AT_ONCE * NEAR * (NEAR * 4 + inducing + width * 3)
    return _Part(
        operations=read + local_queries * (2.0 * searched * width + near + inducing**2),
        moved=count * 6.0 * rows * inducing,
        kept=count * (rows * inducing + 2 * inducing**2),
        at_once=local + 3 * inducing**2 * 2,
    )


def _committee(
    config: RelationalConfig, rows: int, width: int, ways: int, queries: int, at_once: int
) -> _Part:
    """Return the cost of the blocks."""
    blocks, values = config.layers, (config.heads + NUM_OPERATORS) * config.value_dim
    members = num_members(rows, ways)
    known, listed = ways, ways
    if ways > MAX_UNLISTED_WAYS:
        known, listed = num_known(members) + 1, LISTED_PER_QUERY + 1
    pairs, states = members**2, members * known
    inverses = NUM_OPERATORS * (width**3 if members < rows else 0) + members**3
    updates = blocks * (states + queries * listed) * STATE
    attention = blocks * 2.0 * values * (members + queries) * members * known
    return _Part(
        operations=inverses + 2.0 * (1 + NUM_OPERATORS) * pairs * width + updates + attention,
        moved=pairs * PAIR * 2.0 + (states + queries * listed) * STATE / 40,
        kept=pairs + NUM_OPERATORS * width**2 + blocks * states * values,
        at_once=pairs * PAIR + states * 300 + at_once * members,
    )
