"""Write the results as a self-contained folder: README, tables, plots and all rows."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from unitail.benchmark.compare import ROWS_FILE
from unitail.benchmark.means import (
    ArrowTable,
    DataSetMeans,
    GroupMeans,
    Means,
    calibration_table,
    data_set_means,
    episode_table,
    group_means,
    grouped,
    pooled_calibration,
    summary_text,
)
from unitail.benchmark.plots import plot_accuracy, plot_reliability
from unitail.benchmark.store import TableResult
from unitail.benchmark.versus import versus_sections
from unitail.errors import optional
from unitail.evaluation.result import Outcome
from unitail.files import disk_errors, write_bytes, write_text
from unitail.wording import markdown_table

NEEDED = ("pyarrow.parquet", "matplotlib")
"""Packages that write the files and plots."""
CALIBRATION_FILE = "calibration.parquet"
SUMMARY_FILE = "summary.csv"
README_FILE = "README.md"
RELIABILITY_FILE = "reliability.png"
BYTE_BY_BYTE = ("nll", "brier")
"""Columns whose values hardly repeat, stored with BYTE_STREAM_SPLIT."""
PROBABILITIES = """\
Negative log-likelihood in nats / Brier score (0 to 2) / expected calibration error in %: means over
the data sets of a group. Smaller is better."""
FILES = """\
`rows.parquet` has a row for each episode and learner, with a hash of the episode, for paired
comparisons (`unitail compare`); `calibration.parquet` the bins of the reliability curves;
`summary.csv` all numbers for each data set, with reasons and the memory (MiB) that answers to a
batch take beside weights and episodes."""

AnyMeans = TypeVar("AnyMeans", bound=Means)


def require_report_packages() -> None:
    """Raise if a package that the report needs is missing."""
    for module in NEEDED:
        optional(module, extra="report")


def write_benchmark_report(
    folder: Path,
    results: Sequence[TableResult],
    *,
    title: str,
    command: str,
    notes: Sequence[str] = (),
    against: str = "",
) -> list[GroupMeans]:
    """Write the results into `folder` and return the means of the groups.

    `command` is the command that produced them; `notes` are sentences for the reader; `against` is
    the learner that all others are compared with, or empty for a default.
    """
    rows = data_set_means(results)
    groups, calibration = group_means(rows), pooled_calibration(results)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _write_parquet(folder / ROWS_FILE, episode_table(results))
        _write_parquet(folder / CALIBRATION_FILE, calibration_table(results))
        write_text(folder / SUMMARY_FILE, summary_text(rows))
        for protocol, own in grouped(groups, lambda row: row.protocol).items():
            write_bytes(folder / picture_name(protocol), plot_accuracy(own, protocol))
        if calibration:
            write_bytes(folder / RELIABILITY_FILE, plot_reliability(calibration))
        write_text(
            folder / README_FILE,
            readme(title, command, rows, groups, notes, versus_sections(results, against)),
        )
    return groups


def readme(
    title: str,
    command: str,
    rows: Sequence[DataSetMeans],
    groups: Sequence[GroupMeans],
    notes: Sequence[str] = (),
    versus: Sequence[str] = (),
) -> str:
    """Return the text of the README."""
    answered = any(row.outcome is Outcome.ANSWERED for row in rows)
    sections = [
        f"# {title}",
        f"```sh\n{command}\n```",
        *_facts(rows, notes),
        FILES,
        "## Groups",
        *_by_protocol(groups, _group_section),
        *versus,
        "## Data sets",
        *_by_protocol(rows, _data_set_section),
        "## Probabilities",
        PROBABILITIES,
        *_by_protocol(groups, lambda own: learner_table(own, _title, probability_cell)),
        *([f"![reliability curves]({RELIABILITY_FILE})"] if answered else []),
        "## Time",
        _time_text(rows),
        *_by_protocol(groups, lambda own: learner_table(own, _title, time_cell)),
        *_refusals(rows),
    ]
    return "\n\n".join(sections) + "\n"


def picture_name(protocol: str) -> str:
    """Return the file name of a protocol's plot."""
    return f"accuracy-{re.sub(r'[^A-Za-z0-9]+', '-', protocol).strip('-')}.png"


def accuracy_cell(row: Means) -> str:
    """Format accuracy as mean ± half width in %."""
    return _cell(row, f"{100 * row.accuracy:.1f} ± {100 * row.half_width:.1f}")


def probability_cell(row: Means) -> str:
    """Format negative log-likelihood, Brier score and calibration error."""
    return _cell(row, f"{row.nll:.3f} / {row.brier:.3f} / {100 * row.ece:.1f}")


def time_cell(row: Means) -> str:
    """Format the milliseconds per episode."""
    return _cell(row, f"{row.ms:.2f}")


def learner_table(
    rows: Sequence[AnyMeans],
    column: Callable[[AnyMeans], str],
    cell: Callable[[AnyMeans], str],
    *,
    bold: bool = False,
) -> str:
    """Return a table with a row per learner; `column` gives the column of each result.

    With `bold`, each column's highest accuracy is bold, among learners that answered all of it.
    """
    columns = grouped(rows, column)
    best = [max(filter(_complete, own), key=_accuracy, default=None) for own in columns.values()]
    lines = []
    for learner, own in grouped(rows, lambda row: row.learner).items():
        cells = {
            column(row): f"**{cell(row)}**" if bold and row in best else cell(row) for row in own
        }
        lines.append([learner, *(cells.get(name, "") for name in columns)])
    return markdown_table(["learner", *columns], lines)


def _cell(row: Means, text: str) -> str:
    """Return the text, with "(7 of 9)" if data sets are missing, or why there is no result."""
    if row.outcome is not Outcome.ANSWERED:
        return str(row.outcome)
    if isinstance(row, GroupMeans) and row.answered < row.data_sets:
        return f"{text} ({row.answered} of {row.data_sets})"
    return text


def _complete(row: Means) -> bool:
    """Return whether a learner answered all data sets of the row."""
    partial = isinstance(row, GroupMeans) and row.answered < row.data_sets
    return row.outcome is Outcome.ANSWERED and not partial


def _accuracy(row: Means) -> float:
    return row.accuracy


def _title(row: GroupMeans | DataSetMeans) -> str:
    return row.title


def _facts(rows: Sequence[DataSetMeans], notes: Sequence[str]) -> Iterator[str]:
    """Yield an explanation of the numbers, and where they deviate from the protocol."""
    episodes = max(row.episodes for row in rows)
    queries = max(row.queries for row in rows)
    yield (
        f"Accuracy in %, mean ± half width of its 95 % interval, of {episodes:,} episodes for each"
        f" data set, the same for every learner; {queries} queries of a class"
        f" ({', '.join(dict.fromkeys(row.shares for row in rows))}). A group's mean gives all its"
        " data sets the same weight, (7 of 9) where a learner could not answer all; its interval is"
        " about episodes, not about other data sets. The highest mean is bold, be it by chance or"
        " not: ask `unitail compare`."
    )
    exceptions = [
        ("Fewer classes than requested; all are used", _exceptions(rows, "ways")),
        ("Fewer queries per class, as there are too few rows", _exceptions(rows, "queries")),
    ]
    lines = [f"- {what}: {', '.join(names)}." for what, names in exceptions if names]
    lines += [f"- {note}" for note in notes]
    if lines:
        yield "\n".join(lines)


def _exceptions(rows: Sequence[DataSetMeans], column: str) -> list[str]:
    """List the data sets whose value in a column is below their protocol's maximum."""
    highest = {
        protocol: max(getattr(row, column) for row in own)
        for protocol, own in grouped(rows, lambda row: row.protocol).items()
    }
    fewer = [row for row in rows if getattr(row, column) < highest[row.protocol]]
    return list(dict.fromkeys(f"{row.name} ({getattr(row, column)})" for row in fewer))


def _by_protocol(
    rows: Sequence[AnyMeans], section: Callable[[list[AnyMeans]], str]
) -> Iterator[str]:
    for protocol, own in grouped(rows, lambda row: row.protocol).items():
        yield f"### {protocol}"
        yield section(own)


def _group_section(rows: Sequence[GroupMeans]) -> str:
    protocol = rows[0].protocol
    text = learner_table(rows, _title, accuracy_cell, bold=True)
    return f"{text}\n\n![accuracy, {protocol}]({picture_name(protocol)})"


def _data_set_section(rows: Sequence[DataSetMeans]) -> str:
    return "\n\n".join(
        f"**{group}**\n\n{learner_table(own, _title, accuracy_cell, bold=True)}"
        for group, own in grouped(rows, lambda row: row.group).items()
    )


def _time_text(rows: Sequence[DataSetMeans]) -> str:
    devices = ", ".join(dict.fromkeys(row.device for row in rows))
    return (
        f"Milliseconds for an episode, support and all its queries, in batches of episodes; on"
        f" {devices}, torch {torch.__version__}."
    )


def _refusals(rows: Sequence[DataSetMeans]) -> Iterator[str]:
    """Yield a table of the failures of learners, with reasons."""
    failed = [row for row in rows if row.outcome is not Outcome.ANSWERED]
    if not failed:
        return
    yield "## What learners could not do"
    lines = []
    for (learner, outcome, reason), own in grouped(
        failed, lambda row: (row.learner, row.outcome, row.reason)
    ).items():
        names = ", ".join(dict.fromkeys(row.name for row in own))
        lines.append([learner, outcome, names, " ".join(reason.replace("|", "/").split())])
    yield markdown_table(["learner", "outcome", "data sets", "reason"], lines, rule="---")


def _write_parquet(path: Path, content: ArrowTable) -> None:
    """Write a table; columns that hardly repeat compress best when split into byte streams."""
    buffer = io.BytesIO()
    split = [name for name in BYTE_BY_BYTE if name in content.column_names]
    optional("pyarrow.parquet", extra="report").write_table(
        content,
        buffer,
        compression="zstd",
        compression_level=9,
        use_dictionary=[name for name in content.column_names if name not in split],
        column_encoding=dict.fromkeys(split, "BYTE_STREAM_SPLIT"),
    )
    write_bytes(path, buffer.getvalue())
