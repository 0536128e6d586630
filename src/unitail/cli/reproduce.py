"""Run `unitail reproduce`."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import typer

from unitail.benchmark.report import require_report_packages
from unitail.benchmark.suite_file import read_suite, swaps
from unitail.cli.console import bar
from unitail.reproduction.run import SUITES, Measured, Reproduction
from unitail.reproduction.validity import (
    VALIDITY,
    measure_validity,
    validity_section,
)
from unitail.reproduction.write import write_report
from unitail.wording import numbered


def run(
    *,
    suites: Sequence[str],
    banks: Path,
    runs: Path,
    folder: Path,
    encoders: Sequence[str],
    episodes: int | None,
    learners: Sequence[str],
    device: str,
    processes: int,
) -> None:
    """Measure one suite after the other, and update the report after each."""
    require_report_packages()
    names = list(dict.fromkeys(suites or (*SUITES, VALIDITY)))
    tested = [name for name in names if name != VALIDITY]
    for name in tested:  # a wrong name is an error before anything is measured
        read_suite(name)
    work = Reproduction(
        suites=tested,
        banks=banks,
        runs=runs,
        folder=folder,
        encoders=swaps(encoders),
        episodes=episodes,
        learners=learners,
        device=device,
        processes=processes,
    )
    command = _command(suites, encoders, episodes, learners)
    done: list[Measured] = []
    for name in tested:
        with bar(name) as on_progress:
            done.append(work.measure(name, on_progress))
        typer.echo(f"{name}: {_status(done[-1])}")
        write_report(folder, done, command=command, swapped=encoders, learners=learners)
    if VALIDITY in names:
        with bar(VALIDITY) as on_progress:
            section = validity_section(measure_validity(work, on_progress))
        typer.echo(f"{VALIDITY}: {section.status}.")
        write_report(
            folder, done, command=command, swapped=encoders, learners=learners, more=[section]
        )
    typer.echo(f"The report is {folder / 'report.html'}; as text, {folder / 'README.md'}.")


def _status(measured: Measured) -> str:
    if measured.skipped:
        return f"skipped, {measured.skipped}. The report says how to get them."
    names = {result.table.name for result in measured.results}
    missing = f"; {len(measured.missing)} more are missing" if measured.missing else ""
    return f"measured on {numbered(len(names), 'data set')}{missing}."


def _command(
    suites: Sequence[str], encoders: Sequence[str], episodes: int | None, learners: Sequence[str]
) -> str:
    """Return the command that repeats the run, with placeholders for local folders."""
    words = ["unitail reproduce --banks BANKS --runs RUNS"]
    words += [f"--suite {shlex.quote(Path(name).name)}" for name in suites]
    words += [f"--encoder {shlex.quote(each)}" for each in encoders]
    words += [f"--episodes {episodes}"] if episodes else []
    return " ".join([*words, *(f"--learner {name}" for name in learners)])
