"""The section of a report that compares all learners with one."""

import math
from collections.abc import Iterable, Iterator, Sequence

from unitail.benchmark.means import grouped
from unitail.benchmark.store import TableResult
from unitail.benchmark.versus import Versus, versus
from unitail.errors import UserError
from unitail.wording import markdown_table

ANCHORS = ("linear_probe_shrunk", "linear_probe_tuned", "linear_probe_paper")
"""What others are compared with, if nothing else is said: the strongest simple method."""
TEXT = """\
Points of accuracy, learner minus `{name}`, on the same episodes: mean over data sets, each counted
once whatever its encoders; ± half width of the 95 % interval over episodes (these data sets, other
episodes; bold where it leaves out 0) / over data sets (other sets of the kind). Then data sets won,
tied and lost, where a win or a loss is beyond doubt by a paired test with Holm's correction over
the data sets of the cell."""


def versus_sections(results: Sequence[TableResult], against: str = "") -> list[str]:
    """Write the section, in pieces; nothing where there is nobody to compare."""
    names = dict.fromkeys(name for each in results for name in each.evaluations)
    other = chosen_anchor(list(names), against)
    compared = versus(results, other) if other else []
    if not compared:
        return []
    return [f"## Against {other}", TEXT.format(name=other), *_tables(compared)]


def chosen_anchor(learners: Sequence[str], against: str) -> str:
    """Return the learner that others are compared with; a wrong name is an error."""
    if against and against not in learners:
        raise UserError("no such learner to compare with", got=against, allowed=", ".join(learners))
    return against or next((name for name in ANCHORS if name in learners), "")


def versus_cell(row: Versus) -> str:
    """Write difference, intervals, wins, ties and losses."""
    sets = "-" if math.isnan(row.set_half_width) else f"{100 * row.set_half_width:.1f}"
    text = f"{100 * row.difference:+.1f} ± {100 * row.episode_half_width:.1f} / {sets}"
    return f"{f'**{text}**' if row.shown else text}, {row.wins}-{row.ties}-{row.losses}"


def versus_rows(results: Sequence[TableResult], other: str) -> tuple[list[str], list[list[str]]]:
    """Return one table for all protocols: its header and its rows."""
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
