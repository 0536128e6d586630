"""Build one validity report from stored curves of learners whose models are not available.

`unitail validity --curves FOLDER` stores every curve as it is measured, and reuses stored ones if
it can load the learners. Learners of short runs that were trained elsewhere are known here only by
name: the stored curve of each learner and task is used, provided all have the same settings.
Learners with fewer support sets than the others are listed in the report.

    python bench/join_validity.py CURVES --banks BANKS --learners unitail gpicl_0 --out OUT
"""

import argparse
import json
from pathlib import Path
from typing import Any

from measuring.page import command_line

from unitail.framework.curves import LearningCurve
from unitail.framework.validity import Unsolved, judge_together
from unitail.validity_study.declared import (
    BUILT_IN,
    DeclaredTask,
    declared_tasks,
    read_declaration,
)
from unitail.validity_study.kept import KeptCurves, task_stamp
from unitail.validity_study.report import write_validity_report
from unitail.validity_study.study import ValidityStudy

SETTINGS = ("shots", "queries", "seed")
"""Settings that all curves must share; the number of support sets may differ."""


def read_kept(folders: list[Path]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Read the descriptions of stored curves, by learner and task."""
    stored: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path in sorted(path for folder in folders for path in folder.glob("*.json")):
        about = json.loads(path.read_text())["about"]
        stored.setdefault((about["learner"], about["task"]), []).append(about | {"at": path.parent})
    return stored


def curve_of(
    learner: str, each: DeclaredTask, stored: dict[tuple[str, str], list[dict[str, Any]]]
) -> tuple[LearningCurve | Unsolved, str]:
    """Return the only curve of a learner on a task, and its device; exit if there is not one."""
    curves = stored.get((learner, task_stamp(each.task)), [])
    if len(curves) != 1:
        raise SystemExit(f"{len(curves)} curves of {learner} on {each.task.name}, not one")
    about = dict(curves[0])
    curve = KeptCurves(about.pop("at")).read(about)
    assert curve is not None, "it was just listed"
    return curve


def main() -> None:
    """Read the curves, test them and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("curves", type=Path, nargs="+", help="folders of curves")
    parser.add_argument("--banks", type=Path)
    parser.add_argument("--tasks", type=Path, help="a TOML file that declares other tasks")
    parser.add_argument("--learners", nargs="+", required=True)
    parser.add_argument("--note", action="append", default=[], help="a paragraph of the report")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    declaration = BUILT_IN if args.tasks is None else read_declaration(args.tasks)
    declared, stored = declared_tasks(declaration, args.banks), read_kept(args.curves)
    settings = {
        tuple(str(about[name]) for name in SETTINGS)
        for (learner, _), descriptions in stored.items()
        for about in descriptions
        if learner in args.learners
    }
    if len(settings) != 1:
        raise SystemExit(f"curves of different settings: {sorted(settings)}")
    curves = {n: [curve_of(n, each, stored) for each in declared.tasks] for n in args.learners}
    draws = {
        learner: max(
            about["draws"]
            for (name, _), descriptions in stored.items()
            for about in descriptions
            if name == learner
        )
        for learner in args.learners
    }
    max_draws = max(draws.values())
    fewer = [f"{number} of {name}" for name, number in draws.items() if number < max_draws]
    notes = [f"Fewer support sets of each size: {', '.join(fewer)}."] if fewer else []
    study = ValidityStudy(
        reports={
            n: judge_together([c for c, _ in descriptions], 0.05, 0.1)
            for n, descriptions in curves.items()
        },
        tasks=declared.tasks,
        draws=max_draws,
        level=0.05,
        epsilon=0.1,
        seed=int(next(iter(settings))[-1]),
        devices={
            n: frozenset(kind for _, kind in descriptions) for n, descriptions in curves.items()
        },
    )
    places = {f"CURVES{number or ''}": path for number, path in enumerate(args.curves)}
    command = command_line(BANKS=args.banks, **places).partition(" --note")[0]
    write_validity_report(study, args.out, command=command, notes=[*notes, *args.note])


if __name__ == "__main__":
    main()
