"""Run `unitail bench`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table

from unitail.benchmark.means import GroupMeans, grouped
from unitail.benchmark.merge import merge_results
from unitail.benchmark.report import (
    accuracy_cell,
    require_report_packages,
    write_benchmark_report,
)
from unitail.benchmark.run import BenchRun
from unitail.benchmark.setup import BenchSetup
from unitail.benchmark.store import TableResult
from unitail.benchmark.suite_file import SuiteFile, changed_suite, read_suite, swaps
from unitail.benchmark.versus import chosen_anchor
from unitail.benchmark.workers import run_in_processes
from unitail.cli.console import bar
from unitail.evaluation.protocol import ALL_WAYS
from unitail.framework.learner import Paradigm
from unitail.processes import ProcessGroup
from unitail.wording import numbered


def run(
    *,
    suite: str,
    banks: Path,
    runs: Path,
    folder: Path,
    encoders: Sequence[str],
    learners: Sequence[str],
    draws: int,
    device: str,
    against: str,
    merge: Sequence[Path],
    processes: int,
    **changes: Any,  # noqa: ANN401 - settings of the protocol that differ from the suite
) -> None:
    """Run a benchmark, in this process or in those of torchrun, and report its results."""
    require_report_packages()
    file = changed_suite(read_suite(suite).with_encoders(swaps(encoders)), changes)
    setup = BenchSetup(
        suite=file,
        banks=banks,
        runs=runs,
        folder=folder,
        learners=learners,
        draws=draws,
        device=device,
    )
    command = _command(suite, file, encoders, learners, draws)
    group = ProcessGroup.join(cpu=device == "cpu")
    if group.count > 1:
        bench, _ = setup.open((group.index, group.count))
        bench.run()
        group.wait()
    if group.is_main:
        run_setup(setup, command, against=against, merge=merge, processes=processes)


def run_setup(
    setup: BenchSetup,
    command: str,
    *,
    against: str = "",
    merge: Sequence[Path] = (),
    processes: int = 1,
) -> None:
    """Measure the results that are missing, write the report and print the means."""
    console = Console()
    bench, tested = setup.open()
    chosen_anchor([each.name for each in bench.learners], against)
    sets, protocols = len(tested.tables), len(bench.protocols)
    what = f"{numbered(sets, 'data set')}, {numbered(protocols, 'protocol')}, on {bench.device}"
    notes = [*learner_notes(bench, setup.absent), *tested.notes(), *bench.notes()]
    if merge:
        taken = merge_results(bench, merge)
        console.print(f"Merged from {len(merge)} other folders: {taken} files of results.")
    summary = f"Learners: {', '.join(each.name for each in bench.learners)}; {what}."
    for line in (summary, *notes):
        console.print(line, highlight=False, markup=False)
    groups = write_benchmark_report(
        setup.folder,
        _run(console, bench, setup, processes),
        title=setup.suite.title,
        command=command,
        notes=notes,
        against=against,
    )
    for name, rows in grouped(groups, lambda row: row.protocol).items():
        console.print(_group_table(name, rows))
    console.print(f"Tables, plots and rows are in {setup.folder}; start with README.md.")


def learner_notes(run: BenchRun, absent: Sequence[str]) -> list[str]:
    """Return notes on the learners: their kinds, and which are missing or of unknown training."""
    unknown = [each.name for each in run.learners if each.run is not None and each.record() is None]
    transductive = [each.name for each in run.learners if each.transductive]
    paradigms = grouped(run.learners, lambda each: each.paradigm)
    mixed = Paradigm.MIXED in paradigms
    notes = [
        "Learning algorithms, "
        + "; ".join(
            f"{paradigm}: {', '.join(each.name for each in members)}"
            for paradigm, members in sorted(paradigms.items())
        )
        + ". Explicit ones are written down, implicit ones emerge from trained weights"
        + ("; in mixed ones, weights correct an explicit one." if mixed else ".")
    ]
    if transductive:
        notes.append(
            "Transductive: queries see each other, so answers depend on the other queries:"
            f" {', '.join(transductive)}."
        )
    if absent:
        notes.append(f"Learners of the suite without a trained model here: {', '.join(absent)}.")
    if unknown:
        notes.append(
            f"Trained without a recipe, so their training data are unknown: {', '.join(unknown)}."
        )
    return notes


def _run(console: Console, run: BenchRun, setup: BenchSetup, processes: int) -> list[TableResult]:
    """Run the benchmark under a progress bar that counts answered episodes."""
    with bar("answering episodes", run.pending(), quiet=console.quiet) as show:
        if processes > 1 and run.pending():
            run_in_processes(setup, processes, show)
        return run.run(show if run.pending() else None)


def _command(
    suite: str, file: SuiteFile, encoders: Sequence[str], learners: Sequence[str], draws: int
) -> str:
    """Return the command that repeats the run, with placeholders for local folders."""
    ways = [] if file.ways == (ALL_WAYS,) else [f"--ways {number}" for number in file.ways]
    words = [f"unitail bench --suite {Path(suite).name} --banks BANKS --runs RUNS"]
    words += [f"--encoder {each}" for each in encoders]
    words += [f"--shots {number}" for number in file.shots]
    words += [*ways, f"--queries {file.queries} --episodes {file.episodes}"]
    if file.query_shares != SuiteFile.query_shares:
        words.append(f"--shares {file.query_shares.value}")
    if file.concentration != SuiteFile.concentration:
        words.append(f"--concentration {file.concentration}")
    words += [f"--draws {draws} --seed {file.seed}"]
    return " ".join([*words, *(f"--learner {Path(name).name}" for name in learners)])


def _group_table(protocol: str, rows: Sequence[GroupMeans]) -> Table:
    """Return a table with the mean accuracy of each learner in each group."""
    groups = list(dict.fromkeys(row.title for row in rows))
    table = Table(
        Column("learner", no_wrap=True),
        *(Column(group, justify="right") for group in groups),
        title=f"{protocol}: accuracy in %, 95 % interval",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for name, means in grouped(rows, lambda row: row.learner).items():
        cells = {row.title: accuracy_cell(row) for row in means}
        table.add_row(name, *(cells[group] for group in groups))
    return table
