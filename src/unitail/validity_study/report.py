"""Write a study of validity as a folder: Markdown, one HTML page, plots and numbers."""

import base64
import html
from collections.abc import Iterator, Sequence
from pathlib import Path

from unitail.errors import optional
from unitail.files import write_bytes, write_json, write_text
from unitail.framework.validity import Unsolved, ValidityReport
from unitail.validity_study.plots import plot_curves, plot_verdicts
from unitail.validity_study.study import ValidityStudy, Verdict, verdict

PAGE, MARKDOWN, ROWS = "report.html", "README.md", "rows.json"
PICTURES = {"verdicts.png": "Who is valid where", "curves.png": "Learning curves"}
STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;font-size:13px}td,th{border:1px solid #bbb;padding:.2rem .5rem;"
    "text-align:left}img{max-width:100%}.wide{overflow-x:auto}"
)
WORDS = (
    "**valid**: no rise of the risk with more examples was found, and the residual risk is surely"
    " below epsilon. **no rise**: better than chance and no rise was found, but the residual risk"
    " is not known or not yet that small. **guesses**: no rise, but nowhere surely better than"
    " chance. **rises**: more examples hurt. **cannot**: the learner refuses the task. No test"
    " proves that there is no rise: the tables say how large a rise the data leave possible."
)


def write_validity_report(
    study: ValidityStudy, folder: Path, *, command: str, notes: Sequence[str] = ()
) -> None:
    """Write README.md, report.html (self-contained), the plots and rows.json."""
    require_report_packages()
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {"verdicts.png": plot_verdicts(study), "curves.png": plot_curves(study)}
    for name, content in pictures.items():
        write_bytes(folder / name, content)
    write_json(folder / ROWS, study.rows())
    write_text(folder / MARKDOWN, _markdown(study, command, notes))
    write_text(folder / PAGE, _html(study, command, notes, pictures))


def require_report_packages() -> None:
    """Raise if a package that the report needs is missing, before any work is done."""
    optional("matplotlib.figure", extra="report")


def summary_table(study: ValidityStudy) -> list[list[str]]:
    """Return a table of verdict counts by learner, with the groups in which the learner fails."""
    header = ["learner", *(str(each) for each in reversed(Verdict)), "fails on"]
    rows = []
    for name in study.reports:
        verdicts = list(study.verdicts(name).values())
        failed_groups = {
            each.group
            for each, own_verdict in zip(study.tasks, verdicts, strict=True)
            if own_verdict in (Verdict.CANNOT, Verdict.RISES, Verdict.GUESSES)
        }
        counts = [str(verdicts.count(each)) for each in reversed(Verdict)]
        rows.append([name, *counts, ", ".join(sorted(failed_groups)) or "nothing"])
    return [header, *rows]


def task_table(study: ValidityStudy) -> list[list[str]]:
    """Return a table of tasks: verdicts, and risks at the fewest and the most examples."""
    header = ["group", "task", "n", *study.reports]
    return [header, *(_task_row(study, number) for number in range(len(study.tasks)))]


def _task_row(study: ValidityStudy, number: int) -> list[str]:
    each = study.tasks[number]
    outcomes = [report.outcomes[number] for report in study.reports.values()]
    sizes = next((o.curve.sizes for o in outcomes if isinstance(o, ValidityReport)), ())
    span = f"{sizes[0]} to {sizes[-1]}" if sizes else ""
    return [each.group, each.task.name, span, *map(_cell, outcomes)]


def _cell(outcome: ValidityReport | Unsolved) -> str:
    if isinstance(outcome, Unsolved):
        return str(Verdict.CANNOT)
    risks = outcome.curve.risk()
    return f"{verdict(outcome)}: {risks[0]:.3f} → {risks[-1]:.3f}"


def _details(study: ValidityStudy) -> Iterator[str]:
    """Yield for each learner its rises, its failures, and the largest rise not excluded."""
    for name, report in study.reports.items():
        lines = [
            f"rise on {outcome.curve.task}: {'; '.join(map(str, outcome.finding.rises[:3]))}"
            for outcome in report.outcomes
            if isinstance(outcome, ValidityReport) and not outcome.monotone
        ]
        reasons = dict.fromkeys(
            f"cannot: {outcome.message}"
            for outcome in report.outcomes
            if isinstance(outcome, Unsolved)
        )
        lines += reasons
        if report.largest_rise is not None:
            lines.append(f"a rise of up to {max(report.largest_rise, 0):.3f} is not excluded")
        yield f"**{name}** " + "; ".join(lines) + "."


def _about(study: ValidityStudy) -> str:
    return (
        f"{len(study.tasks)} tasks, {study.draws} support sets of each size; {_same(study)}."
        f" Level {study.level:g} for all tasks of a learner together (Holm), epsilon"
        f" {study.epsilon:g}, seed {study.seed}; risk is the share of wrong answers, with 95 %"
        " intervals."
    )


def _same(study: ValidityStudy) -> str:
    """Describe which learners answer the same episodes."""
    kinds = sorted(set().union(*study.devices.values()))
    if len(kinds) < 2:
        return "all learners answer the same ones"
    on = [
        f"{kind}: {', '.join(name for name, own in study.devices.items() if kind in own)}"
        for kind in kinds
    ]
    return f"learners on the same kind of device answer the same ones ({'; '.join(on)})"


def _markdown(study: ValidityStudy, command: str, notes: Sequence[str]) -> str:
    blocks = [
        "# Practical universality",
        f"{_about(study)} Written by",
        f"    {command}",
        *notes,
        WORDS,
        "## Learners",
        _markdown_table(summary_table(study)),
        *(f"## {title}\n\n![{title}]({name})" for name, title in PICTURES.items()),
        "## Tasks",
        "Risk at the fewest and at the most examples.",
        _markdown_table(task_table(study)),
        "## What failed, and what may have been missed",
        *_details(study),
    ]
    return "\n\n".join(blocks) + "\n"


def _markdown_table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def _html(
    study: ValidityStudy, command: str, notes: Sequence[str], pictures: dict[str, bytes]
) -> str:
    def text(words: str) -> str:
        parts = html.escape(words).split("**")  # every second part is bold
        return "".join(f"<b>{part}</b>" if place % 2 else part for place, part in enumerate(parts))

    images = [
        f"<h2>{title}</h2><img alt='{title}' src='data:image/png;base64,"
        f"{base64.b64encode(pictures[name]).decode()}'>"
        for name, title in PICTURES.items()
    ]
    body = [
        "<h1>Practical universality</h1>",
        f"<p>{text(_about(study))}</p><pre>{text(command)}</pre>",
        *(f"<p>{text(note)}</p>" for note in (*notes, WORDS)),
        "<h2>Learners</h2>",
        _html_table(summary_table(study)),
        *images,
        "<h2>Tasks</h2><p>Risk at the fewest and at the most examples.</p>",
        _html_table(task_table(study)),
        "<h2>What failed, and what may have been missed</h2>",
        *(f"<p>{text(line)}</p>" for line in _details(study)),
    ]
    head = f"<meta charset='utf-8'><title>Practical universality</title><style>{STYLE}</style>"
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(body)}</body></html>"


def _html_table(rows: list[list[str]]) -> str:
    lines = [
        "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"
        for row, tag in zip(rows, ["th", *["td"] * (len(rows) - 1)], strict=True)
    ]
    return f"<div class='wide'><table>{''.join(lines)}</table></div>"
