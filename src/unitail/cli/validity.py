"""Run `unitail validity`."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Column, Table

from unitail.benchmark.learners import BenchLearner, load_learners, load_trained
from unitail.cli.console import bar, print_lines
from unitail.learners.checkpoint import is_model
from unitail.processes import choose_device
from unitail.training.run_folder import MODEL_FOLDER
from unitail.validity_study.declared import BUILT_IN, declared_tasks, read_declaration
from unitail.validity_study.kept import CURVES, KeptCurves
from unitail.validity_study.report import (
    require_report_packages,
    summary_table,
    write_validity_report,
)
from unitail.validity_study.study import LEARNERS, ValidityStudy, study_validity
from unitail.wording import numbered


def run(
    tasks: Path | None,
    *,
    banks: Path | None,
    runs: Path,
    folder: Path,
    curves: Path | None,
    names: Sequence[str],
    shots: tuple[int, ...],
    device: str,
    **settings: Any,  # noqa: ANN401 - those of `study_validity`
) -> None:
    """Measure learning curves under a progress bar, write the report and print the verdicts."""
    require_report_packages()
    console = Console()
    where = choose_device(device)
    declaration = BUILT_IN if tasks is None else read_declaration(tasks)
    declared = declared_tasks(declaration, banks, seed=settings["seed"])
    learners = named_learners(names, runs, where)
    missing = [f"Missing: {'; '.join(declared.missing)}."] if declared.missing else []
    what = f"{numbered(len(learners), 'learner')}, {numbered(len(declared.tasks), 'task')}"
    print_lines(console, f"{what}, on {where}.", *missing)
    with bar("curves") as on_progress:
        study = study_validity(
            {each.name: each.learner for each in learners},
            declared.tasks,
            shots=shots or declared.shots,
            device=where,
            kept=KeptCurves(curves or folder / CURVES),
            stamps={each.name: each.fingerprint for each in learners},
            on_progress=on_progress,
            **settings,
        )
    command = _command(tasks, banks, names, shots, settings)
    write_validity_report(study, folder, command=command, notes=missing)
    console.print(_table(study))
    print_lines(console, f"Curves, verdicts and numbers are in {folder}; start with report.html.")


def named_learners(
    names: Sequence[str], runs: Path, device: torch.device | str
) -> list[BenchLearner]:
    """Load learners by name, or from the folders of models."""
    learners: list[BenchLearner] = []
    for name in dict.fromkeys(names or LEARNERS):
        folder = Path(name)
        if is_model(folder):
            loaded = load_trained(folder, device=device)
            taken = {each.name for each in learners}
            learners.append(replace(loaded, name=_short(folder, taken)))
        else:
            learners += load_learners(runs, [name], own=True, device=device)
    return learners


def _short(folder: Path, taken: Collection[str]) -> str:
    """Name a model after its folder or its run; use the whole path if that name is taken."""
    whole = folder.resolve()
    name = whole.parent.name if whole.name == MODEL_FOLDER else whole.name
    return name if name not in taken else str(folder)


def _command(
    tasks: Path | None,
    banks: Path | None,
    names: Sequence[str],
    shots: Sequence[int],
    settings: dict[str, Any],
) -> str:
    """Return the command that repeats the run, with placeholders for local folders."""
    words = ["unitail validity"]
    words += [tasks.name] if tasks is not None else []
    words += ["--banks BANKS"] if banks is not None else []
    words += [f"--learner {name}" for name in names]
    words += [f"--shots {number}" for number in shots]
    words += [f"--{key} {value}" for key, value in settings.items() if value is not None]
    return " ".join(words)


def _table(study: ValidityStudy) -> Table:
    header, *rows = summary_table(study)
    numbers = [Column(name, justify="right") for name in header[1:-1]]
    table = Table(
        Column(header[0], no_wrap=True),
        *numbers,
        header[-1],
        title="Tasks by verdict",
        box=box.SIMPLE_HEAD,
        show_edge=False,
    )
    for row in rows:
        table.add_row(*row)
    return table
