"""Content of a report, independent of its format: tables, plots, notes and commands."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import unitail
from unitail.benchmark.means import DataSetMeans, data_set_means, grouped
from unitail.benchmark.versus import chosen_anchor, versus_rows
from unitail.evaluation.result import Outcome
from unitail.reproduction.figures import ways_curves
from unitail.reproduction.grid import Grid, paper_grid, plain_grids
from unitail.reproduction.paper import LABELS, paper_tables
from unitail.reproduction.run import Measured, how_to_get
from unitail.wording import numbered

MEASURED_WITH = ("torch", "numpy", "scipy", "scikit-learn", "transformers")
"""Packages whose versions the numbers may depend on."""
ELSEWHERE = {
    "python bench/cost_vs_ways.py --out OUT": "time and memory of training (figures d and e)",
    "python bench/paper_runs.py SAMPLE --work WORK --out OUT": "all ablations with three seeds, and"
    " how the loss falls while the dictionary grows (appendix C)",
}
"""Experiments that train models and are not run here: the command (in a checkout) for each."""
ABLATIONS = "paper_ablations"


@dataclass(frozen=True)
class PlainTable:
    """A table without numbers of the paper."""

    title: str
    about: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Section:
    """The section of one experiment."""

    title: str
    status: str
    """Measured, partly measured, or skipped with the reason."""
    grids: Sequence[Grid] = ()
    tables: Sequence[PlainTable] = ()
    pictures: dict[str, bytes] | None = None
    """PNG files, by caption."""
    versus: tuple[str, list[str], list[list[str]]] | None = None
    """Comparison of all learners with one: its name, the header and the rows."""
    notes: Sequence[str] = ()
    todo: Sequence[str] = ()
    """Commands that would produce what is missing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """The whole report."""

    title: str
    notes: Sequence[str]
    sections: Sequence[Section]
    commands: Sequence[str]
    versions: Sequence[tuple[str, str]]


def build_report(
    measured: Sequence[Measured],
    *,
    command: str,
    swapped: Sequence[str] = (),
    learners: Sequence[str] = (),
    more: Sequence[Section] = (),
) -> Report:
    """Build the report from the measured suites; `more` are sections of other experiments.

    `learners` are the ones named by the user instead of the suites' own.
    """
    names = [each.suite.name for each in measured]
    sections = [*(section(each) for each in measured), *more]
    if any(name.startswith("paper_") for name in names):
        todo = [f"{how}   # {what}" for how, what in ELSEWHERE.items()]
        sections.append(
            Section(title="What this command does not train", status="skipped", todo=todo)
        )
    notes = [
        f"Encoders in the place of the paper's: {', '.join(swapped)}. Its numbers are of its own."
    ]
    return Report(
        title="The paper's tables, reproduced",
        notes=notes if swapped else [],
        sections=sections,
        commands=[command, *(_bench_command(each, swapped, learners) for each in measured)],
        versions=versions(measured),
    )


def section(measured: Measured) -> Section:
    """Return the section of one suite."""
    suite = measured.suite
    rows = data_set_means(measured.results)
    tables = [each for each in paper_tables().values() if each.suite == suite.name]
    sizes = {group.name: len(group.sets) for group in suite.groups}
    grids = [paper_grid(table, rows, sizes) for table in tables]
    if not tables and rows:
        grids = plain_grids(suite.title, rows)
    refused = [f"{name} is left out: {why}" for name, why in (measured.refused or {}).items()]
    todo = [line for bank in measured.missing for line in how_to_get(bank).splitlines()]
    todo += [_training(name, suite.name) for name in measured.absent]
    return Section(
        title=suite.title,
        status=_status(measured),
        grids=grids,
        tables=cost_tables(rows),
        pictures=ways_curves(rows),
        versus=_versus(measured),
        notes=[*measured.notes, *refused],
        todo=list(dict.fromkeys(todo)),
    )


def cost_tables(rows: Sequence[DataSetMeans]) -> list[PlainTable]:
    """Tabulate the time of 1,000 test episodes for data sets measured at several ways."""
    tables = []
    answered = [row for row in rows if row.outcome is Outcome.ANSWERED]
    for (name, shots), own in grouped(answered, lambda row: (row.name, row.shots)).items():
        ways = sorted({row.ways for row in own})
        if len(ways) < 2:
            continue
        lines = [
            [
                LABELS.get(learner, learner),
                *({row.ways: f"{row.ms:.1f}" for row in mine}.get(number, "-") for number in ways),
            ]
            for learner, mine in grouped(own, lambda row: row.learner).items()
        ]
        devices = ", ".join(dict.fromkeys(row.device for row in own))
        about = (
            f"Answers to {own[0].queries} queries a class, timed with the accuracy, on {devices}."
        )
        header = ["method", *(f"{number} classes" for number in ways)]
        title = f"{name}, {shots}-shot: time of 1,000 test episodes, s (figures b and c)"
        tables.append(PlainTable(title, about, header, lines))
    return tables


def versions(measured: Sequence[Measured]) -> list[tuple[str, str]]:
    """List what the numbers depend on: versions, machine, devices and hashes of the data."""
    rows = [("unitail", unitail.__version__), ("Python", platform.python_version())]
    for name in MEASURED_WITH:
        try:
            rows.append((name, version(name)))
        except PackageNotFoundError:
            continue
    rows.append(("machine", f"{platform.system()} {platform.machine()}"))
    devices = [
        evaluation.device
        for each in measured
        for result in each.results
        for evaluation in result.evaluations.values()
    ]
    rows += [("device", device) for device in dict.fromkeys(devices)]
    banks = {
        result.table.name: " ".join(hash_[:12] for hash_ in result.table.fingerprint.split()[::2])
        for each in measured
        for result in each.results
    }
    return [*rows, *((f"bank {name}", hashes) for name, hashes in banks.items())]


def _status(measured: Measured) -> str:
    if measured.skipped:
        return f"skipped: {measured.skipped}"
    tested = len({result.table.name for result in measured.results})
    words = f"{numbered(tested, 'data set')}, {measured.suite.episodes:,} episodes each"
    absent = len(measured.missing)
    return (
        f"partly measured: {words}; {absent} more are not here" if absent else f"measured: {words}"
    )


def _versus(measured: Measured) -> tuple[str, list[str], list[list[str]]] | None:
    names = list(dict.fromkeys(name for each in measured.results for name in each.evaluations))
    anchor = chosen_anchor(names, "")
    header, rows = versus_rows(measured.results, anchor) if anchor else ([], [])
    named = [[LABELS.get(row[0], row[0]), *row[1:]] for row in rows]
    return (LABELS.get(anchor, anchor), header, named) if rows else None


def _training(name: str, suite: str) -> str:
    """Return the command that trains a run."""
    recipe = f"recipes/ablations/{name}.toml" if suite == ABLATIONS else "RECIPE"
    comment = "" if suite == ABLATIONS else "   # such as recipes/equal_time"
    return f"unitail train {recipe} --banks BANKS --out RUNS/{name}{comment}"


def _bench_command(measured: Measured, swapped: Sequence[str], learners: Sequence[str]) -> str:
    suite = measured.suite
    words = [f"unitail bench --suite {suite.name} --banks BANKS --runs RUNS"]
    words += [f"--encoder {each}" for each in swapped]
    words += [f"--episodes {suite.episodes} --seed {suite.seed}"]
    return " ".join([*words, *(f"--learner {name}" for name in learners)])
