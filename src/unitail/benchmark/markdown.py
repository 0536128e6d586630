"""The results of a benchmark as Markdown: what a folder of results says about itself."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from unitail.benchmark.tables import Frame
from unitail.evaluation.result import Outcome

Row = Any
"""A row of a frame."""
RELIABILITY_FILE = "reliability.png"
PROBABILITIES = """\
Negative log-likelihood in nats / Brier score (0 to 2) / expected calibration error in %: means over
the data sets of a group. Smaller is better."""
FILES = """\
`rows.parquet` has a row for each episode and learner, with a hash of the episode, for paired
comparisons (`unitail compare`); `calibration.parquet` the bins of the reliability curves;
`summary.csv` all numbers for each data set, with reasons and the memory (MiB) that answers to a
batch take beside weights and episodes."""


def readme(
    title: str, command: str, summary: Frame, groups: Frame, notes: Sequence[str] = ()
) -> str:
    """Write the whole text."""
    answered = summary["episodes"].max() > 0
    sections = [
        f"# {title}",
        f"```sh\n{command}\n```",
        *_facts(summary, notes),
        FILES,
        "## Groups",
        *_by_protocol(groups, _group_section),
        "## Data sets",
        *_by_protocol(summary, _data_set_section),
        "## Probabilities",
        PROBABILITIES,
        *_by_protocol(groups, lambda part: learner_table(part, "group", probability_cell)),
        *([f"![reliability curves]({RELIABILITY_FILE})"] if answered else []),
        "## Time",
        _time_text(summary),
        *_by_protocol(groups, lambda part: learner_table(part, "group", time_cell)),
        *_refusals(summary),
    ]
    return "\n\n".join(sections) + "\n"


def picture_name(protocol: str) -> str:
    """Return the file of a protocol's picture."""
    return f"accuracy-{re.sub(r'[^A-Za-z0-9]+', '-', protocol).strip('-')}.png"


def accuracy_cell(row: Row) -> str:
    """Write mean ± half width in %."""
    return _cell(row, f"{100 * row.accuracy:.1f} ± {100 * row.half_width:.1f}")


def probability_cell(row: Row) -> str:
    """Write negative log-likelihood, Brier score and calibration error."""
    return _cell(row, f"{row.nll:.3f} / {row.brier:.3f} / {100 * row.ece:.1f}")


def time_cell(row: Row) -> str:
    """Write milliseconds."""
    return _cell(row, f"{row.ms:.2f}")


def is_complete(row: Row) -> bool:
    """Tell whether the row is about all data sets of its group."""
    return bool(getattr(row, "answered", 1) == getattr(row, "data_sets", 1))


def best_rows(frame: Frame, column: str) -> set[tuple[str, str]]:
    """Find the most accurate learner of each column, among those that answered all of it."""
    best: dict[str, Row] = {}
    for row in frame.itertuples():
        place = getattr(row, column)
        fine = row.outcome == Outcome.ANSWERED.value and is_complete(row)
        if fine and (place not in best or row.accuracy > best[place].accuracy):
            best[place] = row
    return {(row.learner, place) for place, row in best.items()}


def learner_table(
    frame: Frame, column: str, cell: Callable[[Row], str], *, bold: bool = False
) -> str:
    """Write a table with a row for each learner and a column for each value of `column`."""
    columns = list(dict.fromkeys(frame[column]))
    learners = list(dict.fromkeys(frame["learner"]))
    best = best_rows(frame, column) if bold else set()
    cells = {}
    for row in frame.itertuples():
        key = (row.learner, getattr(row, column))
        cells[key] = f"**{cell(row)}**" if key in best else cell(row)
    rows = [[name, *(cells.get((name, each), "") for each in columns)] for name in learners]
    return table(["learner", *columns], rows)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], rule: str = "---:") -> str:
    """Write a table; all columns but the first are aligned as `rule` says."""
    rules = ["---", *[rule] * (len(header) - 1)]
    lines = [f"| {' | '.join(cells)} |" for cells in (header, rules, *rows)]
    return "\n".join(lines)


def _cell(row: Row, text: str) -> str:
    """Write the text, with "(7 of 9)" where data sets are missing, or why there is none."""
    if row.outcome != Outcome.ANSWERED.value:
        return str(row.outcome)
    return text if is_complete(row) else f"{text} ({row.answered} of {row.data_sets})"


def _facts(summary: Frame, notes: Sequence[str]) -> Iterator[str]:
    """Say what the numbers are, and where they are not what was asked for."""
    episodes = summary["episodes"].max()
    queries = summary["queries"].max()
    yield (
        f"Accuracy in %, mean ± half width of its 95 % interval, of {episodes:,} episodes for each"
        f" data set, the same for every learner; {queries} queries of a class"
        f" ({', '.join(summary['shares'].unique())}). A group's mean gives all its data sets the"
        " same weight, (7 of 9) where a learner could not answer all; its interval is about"
        " episodes, not about other data sets. The highest mean is bold, be it by chance or not:"
        " ask `unitail compare`."
    )
    exceptions = [
        ("Fewer classes than asked for, all of them used", _exceptions(summary, "ways")),
        ("Fewer queries of a class, for want of rows", _exceptions(summary, "queries")),
    ]
    lines = [f"- {what}: {', '.join(names)}." for what, names in exceptions if names]
    lines += [f"- {note}" for note in notes]
    if lines:
        yield "\n".join(lines)


def _exceptions(summary: Frame, column: str) -> list[str]:
    """List the data sets with less of something than the most of its protocol."""
    most = summary.groupby("protocol")[column].transform("max")
    found = summary[summary[column] < most]
    named = found["encoder"] + "/" + found["data_set"] + " (" + found[column].astype(str) + ")"
    return list(dict.fromkeys(named))


def _by_protocol(frame: Frame, section: Callable[[Frame], str]) -> Iterator[str]:
    for protocol, part in frame.groupby("protocol", sort=False):
        yield f"### {protocol}"
        yield section(part)


def _group_section(part: Frame) -> str:
    protocol = part["protocol"].iloc[0]
    text = learner_table(part, "group", accuracy_cell, bold=True)
    return f"{text}\n\n![accuracy, {protocol}]({picture_name(protocol)})"


def _data_set_section(part: Frame) -> str:
    tables = []
    for group, own in part.groupby("group", sort=False):
        named = own.assign(name=own["encoder"] + "/" + own["data_set"])
        tables.append(f"**{group}**\n\n{learner_table(named, 'name', accuracy_cell, bold=True)}")
    return "\n\n".join(tables)


def _time_text(summary: Frame) -> str:
    devices = ", ".join(dict.fromkeys(summary["device"]))
    return (
        f"Milliseconds for an episode, support and all its queries, in batches of episodes; on"
        f" {devices}, torch {torch.__version__}."
    )


def _refusals(summary: Frame) -> Iterator[str]:
    """Say who could not do what, and why."""
    failed = summary[summary["outcome"] != Outcome.ANSWERED.value]
    if not len(failed):
        return
    yield "## What learners could not do"
    rows = []
    for (learner, outcome, reason), part in failed.groupby(
        ["learner", "outcome", "reason"], sort=False
    ):
        names = dict.fromkeys(part["encoder"] + "/" + part["data_set"])
        rows.append([learner, outcome, ", ".join(names), _one_line(reason)])
    yield table(["learner", "outcome", "data sets", "reason"], rows, rule="---")


def _one_line(reason: str) -> str:
    return " ".join(reason.replace("|", "/").split())
