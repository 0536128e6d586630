"""What a report says, whatever it is written in: sections of tables, curves, notes, commands."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import unitail
from unitail.benchmark.tables import data_set_means
from unitail.benchmark.versus_text import chosen_anchor, versus_rows
from unitail.reproduction.figures import ways_curves
from unitail.reproduction.grid import Grid, paper_grid, plain_grids
from unitail.reproduction.paper import PaperTable, paper_tables
from unitail.reproduction.run import Measured, how_to_get
from unitail.wording import numbered

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "transformers")
ELSEWHERE = {
    "python bench/cost_vs_ways.py": "cost against the number of classes (figure b to e)",
    "python bench/train_recipes.py recipes/ablations": "growth of the dictionary (appendix C)",
    "unitail validity": "practical universality (section 3): who is a valid learning algorithm",
}
"""Experiments that are no suites, and what runs them from a copy of the repository."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Section:
    """One experiment."""

    title: str
    status: str
    """Measured, partly measured, or skipped, and why."""
    grids: Sequence[Grid] = ()
    curves: dict[str, bytes] | None = None
    versus: tuple[str, list[str], list[list[str]]] | None = None
    """All against one: its name, the header and the rows."""
    notes: Sequence[str] = ()
    todo: Sequence[str] = ()
    """Commands that would make the rest."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """All of it."""

    title: str
    notes: Sequence[str]
    sections: Sequence[Section]
    commands: Sequence[str]
    versions: Sequence[tuple[str, str]]


def build_report(
    measured: Sequence[Measured], *, command: str, swapped: Sequence[str] = ()
) -> Report:
    """Put together what was measured and what the paper says."""
    names = [each.suite.name for each in measured]
    sections = [section(each) for each in measured]
    if any(name.startswith("paper_") for name in names):
        sections += [_paper_only(table) for table in paper_tables().values() if not table.suite]
        todo = [f"{how}   # {what}" for how, what in ELSEWHERE.items()]
        sections.append(
            Section(title="Experiments that are no suites", status="skipped", todo=todo)
        )
    notes = [
        f"Encoders in the place of the paper's: {', '.join(swapped)}. Its numbers are of its own."
    ]
    return Report(
        title="The paper's tables, reproduced",
        notes=notes if swapped else [],
        sections=sections,
        commands=[command, *(_bench_command(each, swapped) for each in measured)],
        versions=versions(measured),
    )


def section(measured: Measured) -> Section:
    """Write up one suite."""
    suite = measured.suite
    rows = data_set_means(measured.results)
    tables = [each for each in paper_tables().values() if each.suite == suite.name]
    grids = [paper_grid(table, rows) for table in tables]
    if not tables and rows:
        grids = plain_grids(suite.title, rows)
    refused = [f"{name} is left out: {why}" for name, why in (measured.refused or {}).items()]
    todo = [line for bank in measured.missing for line in how_to_get(bank).splitlines()]
    todo += [
        f"unitail train RECIPE --banks BANKS --out RUNS/{name}   # such as recipes/equal_time"
        for name in measured.absent
    ]
    return Section(
        title=suite.title,
        status=_status(measured),
        grids=grids,
        curves=ways_curves(rows),
        versus=_versus(measured),
        notes=[*measured.notes, *refused],
        todo=list(dict.fromkeys(todo)),
    )


def versions(measured: Sequence[Measured]) -> list[tuple[str, str]]:
    """List what the numbers depend on: versions, the machine, and the hashes of the data."""
    found = [("unitail", unitail.__version__), ("Python", platform.python_version())]
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    found.append(("machine", f"{platform.system()} {platform.machine()}"))
    devices = [
        evaluation.device
        for each in measured
        for result in each.results
        for evaluation in result.evaluations.values()
    ]
    found += [("device", device) for device in dict.fromkeys(devices)]
    banks = {
        result.table.name: " ".join(hash_[:12] for hash_ in result.table.fingerprint.split()[::2])
        for each in measured
        for result in each.results
    }
    return [*found, *((f"bank {name}", hashes) for name, hashes in banks.items())]


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
    return (anchor, header, rows) if rows else None


def _paper_only(table: PaperTable) -> Section:
    return Section(
        title=table.title,
        status="skipped: no suite measures it; the paper's numbers stand here",
        grids=[paper_grid(table, [])],
        todo=[table.how],
    )


def _bench_command(measured: Measured, swapped: Sequence[str]) -> str:
    suite = measured.suite
    words = [f"unitail bench --suite {suite.name} --banks BANKS --runs RUNS"]
    words += [f"--encoder {each}" for each in swapped]
    return " ".join([*words, f"--episodes {suite.episodes} --seed {suite.seed}"])
