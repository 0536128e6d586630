"""Compare all learners with one: paired differences, intervals over episodes and data sets, wins.

`versus` computes the comparison, `versus_sections` formats it for a report.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from unitail.benchmark.means import ALL_GROUPS, grouped
from unitail.benchmark.store import TableResult
from unitail.errors import UserError
from unitail.evaluation.result import Evaluation
from unitail.framework.statistics import LEVEL, MeanInterval, holm
from unitail.wording import markdown_table

ANCHORS = ("linear_probe_shrunk", "linear_probe_tuned", "linear_probe_paper")
"""Default learners to compare with, in order of preference: the strongest simple methods."""
TEXT = """\
Points of accuracy, learner minus `{name}`, on the same episodes: mean over data sets, each counted
once whatever its encoders; ± half width of the 95 % interval over episodes (these data sets, other
episodes; bold where it leaves out 0) / over data sets (other sets of the kind). Then data sets won,
tied and lost, where a win or a loss is beyond doubt by a paired test with Holm's correction over
the data sets of the cell."""


@dataclass(frozen=True, kw_only=True)
class Versus:
    """Comparison of a learner with the reference learner over the data sets of a group.

    Each data set counts once, whatever the number of its encoders.
    """

    learner: str
    group: str
    protocol: str
    difference: float
    """Mean over data sets of the mean difference in accuracy, learner minus reference."""
    episode_half_width: float
    """Half width of its interval over episodes: other episodes of these data sets."""
    set_half_width: float
    """Half width of its interval over data sets: other such data sets; NaN for a single one."""
    wins: int
    """Data sets where it is significantly better, with Holm's correction over the group."""
    ties: int
    losses: int

    @property
    def shown(self) -> bool:
        """Whether the interval over episodes excludes zero."""
        return abs(self.difference) > self.episode_half_width


def versus(results: Sequence[TableResult], other: str) -> list[Versus]:
    """Compare all learners with `other` for each protocol, in each group and over all groups."""
    compared = []
    for (protocol, learner), pairs in grouped(
        _pairs(results, other), lambda pair: (pair.protocol, pair.learner)
    ).items():
        groups = grouped(pairs, lambda pair: pair.group)
        if len(groups) > 1:
            groups[ALL_GROUPS] = pairs
        compared += [_sum_up(learner, group, protocol, part) for group, part in groups.items()]
    return compared


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """The paired differences of a learner on one table."""

    learner: str
    group: str
    protocol: str
    data_set: str
    difference: MeanInterval


def _pairs(results: Iterable[TableResult], other: str) -> list[_Pair]:
    return [
        _Pair(
            learner=learner,
            group=result.table.group,
            protocol=result.protocol.name,
            data_set=result.table.table.name,
            difference=MeanInterval.of(differences),
        )
        for result in results
        if other in result.evaluations
        for learner, evaluation in result.evaluations.items()
        if learner != other
        if (differences := _differences(evaluation, result.evaluations[other])) is not None
    ]


def _differences(first: Evaluation, second: Evaluation) -> NDArray[np.float64] | None:
    """Return the paired differences in accuracy; None if one of the two did not answer."""
    mine, other = first.scores, second.scores
    if not len(mine.hashes) or not np.array_equal(mine.hashes, other.hashes):
        return None
    differences: NDArray[np.float64] = mine.accuracy.astype(float) - other.accuracy
    return differences


def _sum_up(learner: str, group: str, protocol: str, pairs: Sequence[_Pair]) -> Versus:
    sets = [_joined(own) for own in grouped(pairs, lambda pair: pair.data_set).values()]
    means = [each.mean for each in sets]
    better = holm([_p_value(each) for each in sets]) < 1 - LEVEL
    wins = sum(bool(sure) and mean > 0 for sure, mean in zip(better, means, strict=True))
    losses = sum(bool(sure) and mean < 0 for sure, mean in zip(better, means, strict=True))
    return Versus(
        learner=learner,
        group=group,
        protocol=protocol,
        difference=float(np.mean(means)),
        episode_half_width=math.hypot(*(each.half_width for each in sets)) / len(sets),
        set_half_width=MeanInterval.of(means).half_width if len(means) > 1 else math.nan,
        wins=wins,
        ties=len(sets) - wins - losses,
        losses=losses,
    )


def _joined(pairs: Sequence[_Pair]) -> MeanInterval:
    """Average a data set's intervals over its encoders."""
    intervals = [pair.difference for pair in pairs]
    return MeanInterval(
        float(np.mean([each.mean for each in intervals])),
        math.hypot(*(each.half_width for each in intervals)) / len(intervals),
        min(each.count for each in intervals),
    )


def _p_value(interval: MeanInterval) -> float:
    """Return the two-sided p-value of a mean difference by Student's t-test."""
    if interval.half_width == 0:
        return 0.0 if interval.mean else 1.0
    freedom = interval.count - 1
    ratio = abs(interval.mean) / interval.half_width * stats.t.ppf((1 + LEVEL) / 2, freedom)
    return float(2 * stats.t.sf(ratio, freedom))


def versus_sections(results: Sequence[TableResult], against: str = "") -> list[str]:
    """Return the parts of the report's section; empty if there is nothing to compare."""
    names = dict.fromkeys(name for each in results for name in each.evaluations)
    other = chosen_anchor(list(names), against)
    compared = versus(results, other) if other else []
    if not compared:
        return []
    return [f"## Against {other}", TEXT.format(name=other), *_tables(compared)]


def chosen_anchor(learners: Sequence[str], against: str) -> str:
    """Return the learner to compare the others with; raise if `against` is unknown."""
    if against and against not in learners:
        raise UserError("no such learner to compare with", got=against, allowed=", ".join(learners))
    return against or next((name for name in ANCHORS if name in learners), "")


def versus_cell(row: Versus) -> str:
    """Format difference, intervals, wins, ties and losses."""
    sets = "-" if math.isnan(row.set_half_width) else f"{100 * row.set_half_width:.1f}"
    text = f"{100 * row.difference:+.1f} ± {100 * row.episode_half_width:.1f} / {sets}"
    return f"{f'**{text}**' if row.shown else text}, {row.wins}-{row.ties}-{row.losses}"


def versus_rows(results: Sequence[TableResult], other: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows of one table for all protocols."""
    compared = versus(results, other)
    groups = list(dict.fromkeys(row.group for row in compared))
    rows = []
    for (protocol, learner), own in grouped(
        compared, lambda row: (row.protocol, row.learner)
    ).items():
        cells = {row.group: versus_cell(row) for row in own}
        rows.append([learner, protocol, *(cells.get(group, "") for group in groups)])
    return ["learner", "protocol", *groups], rows


def _tables(compared: Iterable[Versus]) -> Iterator[str]:
    for protocol, own in grouped(compared, lambda row: row.protocol).items():
        groups = list(dict.fromkeys(row.group for row in own))
        lines = []
        for learner, rows in grouped(own, lambda row: row.learner).items():
            cells = {row.group: versus_cell(row) for row in rows}
            lines.append([learner, *(cells.get(group, "") for group in groups)])
        yield f"### {protocol}"
        yield markdown_table(["learner", *groups], lines)
