"""The numbers that the paper prints, read from `paper.toml`."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "paper.toml"
SHOTS = (5, 1)
"""In the order of the paper."""
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
"""What tables call learners; others keep their names."""


@dataclass(frozen=True)
class Number:
    """A mean accuracy in %, with the half width of its 95 % interval."""

    mean: float
    half_width: float

    @classmethod
    def parse(cls, text: str) -> "Number":
        """Read "91.86 (0.32)"."""
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
    """Of the columns, as printed."""
    numbers: Mapping[tuple[int, str], tuple[str, ...]]
    """The cells as printed, by shots and learner."""
    suite: str
    """What measures it."""
    sets: tuple[str, ...] = ()
    """The data sets of the columns."""
    groups: tuple[str, ...] = ()
    """Or the groups that columns are averages of."""
    wide: bool = False
    """Whether shots are in the columns."""
    also: tuple[str, ...] | None = None
    """Learners of ours that stand beside the paper's; None where all do that were measured."""
    labels: Mapping[str, str]
    """What the table calls learners."""

    @property
    def learners(self) -> list[str]:
        """The learners of the table, in its order."""
        return list(dict.fromkeys(learner for _, learner in self.numbers))

    def number(self, shots: int, learner: str, column: int) -> Number | None:
        """Return a cell; None where the paper has none."""
        cells = self.numbers.get((shots, learner))
        return None if cells is None else Number.parse(cells[column])


@cache
def paper_tables() -> dict[str, PaperTable]:
    """Return all tables by key, in the order of the paper."""
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
