"""Run `unitail bench`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table

from unitail.benchmark.learners import load_learners
from unitail.benchmark.report import (
    accuracy_cell,
    require_report_packages,
    write_benchmark_report,
)
from unitail.benchmark.run import BenchRun
from unitail.benchmark.store import TableResult
from unitail.benchmark.suites import Suite, open_suite
from unitail.benchmark.tables import GroupMeans, grouped
from unitail.cli.console import progress_bar
from unitail.configuration import from_table
from unitail.devices import choose_device
from unitail.evaluation.protocol import EvaluationProtocol


def run(
    *,
    suite: str,
    banks: Path,
    runs: Path,
    folder: Path,
    shots: Sequence[int],
    learners: Sequence[str],
    draws: int,
    device: str,
    **protocol: Any,  # noqa: ANN401 - the other fields of a protocol
) -> None:
    """Measure under a progress bar, write the report and print its averages."""
    require_report_packages()
    console = Console()
    protocols = [
        from_table(EvaluationProtocol, {**protocol, "shots": number}, "protocol")
        for number in dict.fromkeys(shots)
    ]
    tested = open_suite(suite, banks)
    chosen = choose_device(device)
    bench = BenchRun(
        learners=load_learners(runs, learners, draws=draws, device=chosen),
        tables=tested.tables,
        protocols=protocols,
        folder=folder,
        device=chosen,
    )
    names = ", ".join(each.name for each in bench.learners)
    what = f"{len(tested.tables)} data sets, {len(protocols)} protocols, on {chosen}"
    notes = _notes(bench, tested)
    for line in (f"Learners: {names}; {what}.", *notes):
        console.print(line, highlight=False)
    groups = write_benchmark_report(
        folder,
        _run(console, bench),
        title=f"Benchmark: {suite}",
        command=_command(suite, protocols, learners, draws),
        notes=notes,
    )
    for name, rows in grouped(groups, lambda row: row.protocol).items():
        console.print(_group_table(name, rows))
    console.print(f"Tables, pictures and rows are in {folder}; begin with README.md.")


def _notes(run: BenchRun, tested: Suite) -> list[str]:
    """Say what a reader of the results should know."""
    unknown = [each.name for each in run.learners if each.run is not None and each.record() is None]
    transductive = [each.name for each in run.learners if each.transductive]
    paradigms = grouped(run.learners, lambda each: each.learner.paradigm)
    notes = [
        "Learning algorithms, "
        + "; ".join(
            f"{paradigm}: {', '.join(each.name for each in own)}"
            for paradigm, own in sorted(paradigms.items())
        )
        + ". Explicit ones are written down, implicit ones emerge from weights; in mixed ones"
        " weights correct one that is written down."
    ]
    if transductive:
        notes.append(
            "Transductive: queries see each other, so an answer depends on the others:"
            f" {', '.join(transductive)}."
        )
    if tested.missing:
        notes.append(f"Banks of the suite that are not there: {', '.join(tested.missing)}.")
    if run.too_small():
        notes.append(f"Left out for want of rows: {', '.join(run.too_small())}.")
    if unknown:
        notes.append(
            f"Without a recipe, so what they have seen is not known: {', '.join(unknown)}."
        )
    return notes


def _run(console: Console, run: BenchRun) -> list[TableResult]:
    """Run under a progress bar that counts episodes answered."""
    with progress_bar(console) as progress:
        bar = progress.add_task("answering episodes", total=run.pending())
        return run.run(lambda done, total: progress.update(bar, completed=done, total=total))


def _command(
    suite: str, protocols: Sequence[EvaluationProtocol], learners: Sequence[str], draws: int
) -> str:
    """Write the command again, with names in place of the folders."""
    first, default = protocols[0], EvaluationProtocol()
    words = [f"unitail bench --suite {suite} --banks BANKS --runs RUNS"]
    words += [f"--shots {protocol.shots}" for protocol in protocols]
    words += [
        f"--{option} {value}"
        for option, value, usual in (
            ("ways", first.ways, None),
            ("queries", first.queries, None),
            ("episodes", first.episodes, None),
            ("shares", first.query_shares.value, default.query_shares.value),
            ("concentration", first.concentration, default.concentration),
            ("draws", draws, None),
            ("seed", first.seed, None),
        )
        if value != usual
    ]
    return " ".join([*words, *(f"--learner {name}" for name in learners)])


def _group_table(protocol: str, rows: Sequence[GroupMeans]) -> Table:
    """Tabulate the means of the groups."""
    groups = list(dict.fromkeys(row.group for row in rows))
    table = Table(
        Column("learner", no_wrap=True),
        *(Column(group, justify="right") for group in groups),
        title=f"{protocol}: accuracy in %, 95 % interval",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for name, own in grouped(rows, lambda row: row.learner).items():
        cells = {row.group: accuracy_cell(row) for row in own}
        table.add_row(name, *(cells[group] for group in groups))
    return table
