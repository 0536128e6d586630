"""The numbers printed in the paper, read from `paper.toml`."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "paper.toml"
SHOTS = (5, 1)
"""Numbers of shots, in the order of the paper."""
LABELS = {
    "linear_probe_paper": "Linear Probe",
    "proto_head_paper": "ProtoHead",
    "snail": "SNAIL",
    "gpicl": "GPICL",
    "caml": "CAML",
    "tail": "TAIL",
    "tail_50w": "TAIL 50w",
    "linear_probe_tuned": "Linear Probe, tuned",
    "linear_probe_shrunk": "Linear Probe, shrunk centre",
    "proto_head_centred": "ProtoHead, centred",
    "unitail_joint": "unitail, joint",
    "unitail_joint_balanced": "unitail, joint, balanced",
}
"""Names of learners in tables; learners not listed keep their own."""


@dataclass(frozen=True)
class Number:
    """A mean accuracy in %, with the half width of its 95 % interval."""

    mean: float
    half_width: float

    @classmethod
    def parse(cls, text: str) -> "Number":
        """Parse a text such as "91.86 (0.32)"."""
        match = re.fullmatch(r"(\d+\.\d+) \((\d+\.\d+)\)", text)
        assert match is not None, f"not a number of the paper: {text}"
        return cls(float(match[1]), float(match[2]))


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """A table of the paper."""

    key: str
    title: str
    caption: str
    names: tuple[str, ...]
    """Names of the columns, as printed."""
    numbers: Mapping[tuple[int, str], tuple[str, ...]]
    """Cells as printed, by shots and learner."""
    suite: str
    """Name of the suite that measures it."""
    sets: tuple[str, ...] = ()
    """Data sets of the columns, if columns are data sets."""
    groups: tuple[str, ...] = ()
    """Groups of the columns, if columns are averages over groups."""
    wide: bool = False
    """Whether the numbers of shots are columns rather than rows."""
    also: tuple[str, ...] | None = None
    """Our learners to show besides the paper's; None shows all that were measured."""
    labels: Mapping[str, str]
    """Names of learners in this table."""

    @property
    def learners(self) -> list[str]:
        """Learners of the table, in its order."""
        return list(dict.fromkeys(learner for _, learner in self.numbers))

    def number(self, shots: int, learner: str, column: int) -> Number | None:
        """Return the number of a cell; None if the paper has none."""
        cells = self.numbers.get((shots, learner))
        return None if cells is None else Number.parse(cells[column])


@cache
def paper_tables() -> dict[str, PaperTable]:
    """Return all tables, by key, in the order of the paper."""
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {key: _table(key, table) for key, table in tables.items()}


def _table(key: str, table: Mapping[str, Any]) -> PaperTable:
    numbers = {
        (shots, learner): tuple(cells)
        for shots in SHOTS
        for learner, cells in table[f"shots_{shots}"].items()
    }
    return PaperTable(
        key=key,
        title=table["title"],
        caption=table["caption"],
        names=tuple(table["names"]),
        numbers=numbers,
        suite=table["suite"],
        sets=tuple(table.get("sets", ())),
        groups=tuple(table.get("groups", ())),
        wide=table.get("wide", False),
        also=tuple(table["also"]) if "also" in table else None,
        labels={**LABELS, **table.get("labels", {})},
    )
