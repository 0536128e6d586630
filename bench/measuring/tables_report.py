"""The scores of bench/tables.py, and the page about them."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
import table_sets

from measuring.page import Page
from unitail.framework.statistics import MeanInterval
from unitail.learners.fingerprints import default_stamp

ISOLATED, JOINT = "unitail", "unitail, joint"
MAX_ASKED = 500
"""Largest number of queries per table."""
Line = dict[str, Any]


class Scores:
    """Measured scores, one per line; ours count only for the current model."""

    def __init__(self, path: Path, *, as_stored: bool = False) -> None:
        """Read the scores; ours only from the shipped model, or else the last measured one."""
        self.path, self.model = path, default_stamp()
        text = path.read_text() if path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines()]
        if as_stored:
            self.model = next((line["model"] for line in lines[::-1] if "model" in line), "")
        self.lines = [line for line in lines if self._counts(line)]

    def _counts(self, line: Line) -> bool:
        return line["method"] not in (ISOLATED, JOINT) or line.get("model") == self.model

    def has(self, **key: Any) -> bool:  # noqa: ANN401
        """Return whether there is a line with this key."""
        return any(all(line[name] == key[name] for name in key) for line in self.lines)

    def add(self, lines: Sequence[Line]) -> None:
        """Store lines, and print them."""
        with self.path.open("a") as file:
            for each in lines:
                own = {"model": self.model} if each["method"] in (ISOLATED, JOINT) else {}
                self.lines.append(each | own)
                file.write(json.dumps(each | own) + "\n")
                print(*each.values(), flush=True)

    def by_draw(self, setting: str, tables: Sequence[str]) -> pandas.DataFrame:
        """Return scores by table and draw (rows) and method (columns), where unitail has them."""
        rows = [
            line for line in self.lines if line["setting"] == setting and line["table"] in tables
        ]
        if not rows:
            return pandas.DataFrame()
        table = pandas.DataFrame(rows).pivot_table("score", ["table", "draw"], "method")
        whole = [each for each in (ISOLATED, "random forest") if each in table]
        return table.dropna(subset=whole)


def report(
    scores: Scores, args: argparse.Namespace, settings: Sequence[object], version: str
) -> None:
    """Write the page."""
    page = Page(
        args.out / "README.md",
        "Tables",
        f"Balanced accuracy in %, {args.draws} draws of each table, at most {MAX_ASKED} rows asked."
        f" Tables for choices and tables for reports were told apart before the first run"
        f" (bench/table_sets.py). {version}",
        PACKAGES=args.packages or Path("PACKAGES"),
    )
    groups = {
        "Real tables for reports": [n for n in table_sets.REAL if n not in table_sets.TUNING],
        "Real tables for choices": [n for n in table_sets.REAL if n in table_sets.TUNING],
        "Constructed shapes": list(table_sets.SHAPES),
    }
    for title, names in groups.items():
        page.text(
            f"## {title}",
            "Means; below, unitail's lead on the same draws and its 95 % interval over tables,"
            " their number in brackets where a method was not asked about all.",
        )
        page.table(["labels", "tables", *args.methods])
        for setting in settings:
            drawn = scores.by_draw(str(setting), names)
            if not len(drawn):
                continue
            means = drawn.groupby("table").mean()
            shown = [f"{means[each].mean():.1f}" if each in means else "" for each in args.methods]
            page.row(setting, len(means), *shown)
            leads = [_lead(drawn, each) for each in args.methods]
            page.row("lead", "", *leads)
    page.text("## Every table")
    page.table(["table", "from", "labels", *args.methods])
    for name, (source, _) in sorted({**table_sets.REAL, **table_sets.CONSTRUCTED}.items()):
        for setting in settings:
            drawn = scores.by_draw(str(setting), [name])
            if len(drawn):
                row = drawn.mean()
                cells = [f"{row[each]:.1f}" if each in row else "" for each in args.methods]
                page.row(name, source, setting, *cells)


def _lead(drawn: pandas.DataFrame, method: str) -> str:
    """Format unitail's lead: paired by draw, then averaged over tables."""
    if method == ISOLATED or method not in drawn or ISOLATED not in drawn:
        return ""
    leads = (drawn[ISOLATED] - drawn[method]).dropna().groupby("table").mean().tolist()
    if len(leads) < 2:
        return ""
    lead = MeanInterval.of(leads)
    tables = f" ({len(leads)})" if len(leads) < len(drawn.groupby("table")) else ""
    return f"{lead.mean:+.1f} ± {lead.half_width:.1f}{tables}"
