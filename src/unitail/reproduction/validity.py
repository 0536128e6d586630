"""Practical universality (section 3 of the paper) as a section of the reproduction."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from unitail.benchmark.learners import load_learners
from unitail.processes import choose_device
from unitail.progress import OnProgress
from unitail.reproduction.report import PlainTable, Section
from unitail.reproduction.run import Reproduction, how_to_get
from unitail.validity_study.declared import BUILT_IN, Declaration, declared_tasks
from unitail.validity_study.kept import CURVES, KeptCurves
from unitail.validity_study.plots import plot_curves, plot_verdicts
from unitail.validity_study.report import WORDS, summary_table, task_table
from unitail.validity_study.study import DRAWS, LEARNERS, ValidityStudy, study_validity
from unitail.wording import numbered

VALIDITY = "validity"
"""Name of the experiment, used like the name of a suite."""
MIN_DRAWS = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Studied:
    """The study and the tasks it lacks."""

    study: ValidityStudy
    missing: Sequence[str] = ()
    """Tasks whose banks are not available, as "ENCODER/DATASET, K classes"."""


def measure_validity(
    work: Reproduction,
    on_progress: OnProgress | None = None,
    *,
    declaration: Declaration = BUILT_IN,
) -> Studied:
    """Measure the learning curves that the available data allow, reusing stored curves.

    The number of support sets per size is limited by the `episodes` of the reproduction.
    """
    device = choose_device(work.device)
    declared = declared_tasks(declaration, work.banks if work.banks.is_dir() else None)
    names, own = work.learners or LEARNERS, bool(work.learners)
    learners = load_learners(work.runs, names, own=own, draws=work.draws, device=device)
    study = study_validity(
        {each.name: each.learner for each in learners},
        declared.tasks,
        shots=declared.shots,
        draws=max(MIN_DRAWS, min(DRAWS, work.episodes or DRAWS)),
        device=device,
        kept=KeptCurves(work.folder / VALIDITY / CURVES),
        stamps={each.name: each.fingerprint for each in learners},
        on_progress=on_progress,
    )
    return Studied(study=study, missing=declared.missing)


def validity_section(studied: Studied) -> Section:
    """Return the section on which learners are valid learning algorithms for which tasks."""
    study = studied.study
    banks = dict.fromkeys(each.split(", ")[0] for each in studied.missing)
    done = f"{numbered(len(study.tasks), 'task')}, {study.draws} support sets of each size"
    absent = len(studied.missing)
    summary, *rows = summary_table(study)
    tasks, *lines = task_table(study)
    return Section(
        title="Practical universality",
        status=f"partly measured: {done}; {numbered(absent, 'more task')} without a bank"
        if absent
        else f"measured: {done}",
        notes=[each.replace("**", "") for each in re.split(r" (?=\*\*|No test)", WORDS)],
        tables=[
            PlainTable("Tasks by verdict", "The paper has no numbers of this.", summary, rows),
            PlainTable("Risk at the fewest and at the most examples n", "", tasks, lines),
        ],
        pictures={
            "Who is a valid learning algorithm where": plot_verdicts(study),
            "Learning curves: risk against the number of labelled examples": plot_curves(study),
        },
        todo=[line for bank in banks for line in how_to_get(bank).splitlines()],
    )
