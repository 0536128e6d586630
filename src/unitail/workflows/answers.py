"""Answers about a user's items, and the files they are written to."""

import csv
import io
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unitail.encoders.encoder import Modality
from unitail.errors import CannotWrite
from unitail.files import disk_errors, write_json, write_text
from unitail.inputs.encode import Unread

FORMAT = 1
SUFFIXES = (".csv", ".json")
DIGITS = 6
"""Of probabilities and novelty in files."""
NOVEL = 0.95
"""Novelty that is marked: about one in twenty items of the known classes is as strange."""
NUMBER = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What is said about one item."""

    place: int
    """The number of the item among all queries, from 0; those that cannot be read count too."""
    name: str
    label: str
    """The most probable class."""
    probability: float
    top: tuple[tuple[str, float], ...]
    """The most probable classes with their probabilities, the first is `label`."""
    members: tuple[str, ...]
    """The prediction set, the most probable first: it holds the true class with the probability
    `Answers.coverage`."""
    novelty: float
    """0 to 1: the higher, the less the item looks like any of the classes."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """All answers of one call, in the order of the queries."""

    answers: tuple[Answer, ...]
    unreadable: tuple[Unread, ...]
    repeated: tuple[str, ...]
    """Queries that equal an example: their answers say nothing about new items."""
    modality: Modality
    encoder: str
    examples: Mapping[str, int]
    """How many examples of each class were read."""
    coverage: float
    joint: bool
    """Whether queries were answered together."""
    num_cached: int = 0
    """How many items had been encoded before."""
    notes: tuple[str, ...] = ()
    """What else the user should know, a phrase each."""

    def by_uncertainty(self) -> list[Answer]:
        """Return the answers, the least probable first."""
        return sorted(self.answers, key=lambda answer: (answer.probability, answer.place))


def check_target(path: Path, *suffixes: str) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if path.suffix.lower() not in suffixes:
        raise CannotWrite(
            "unsupported file extension",
            got=repr(str(path)),
            allowed=f"a name that ends in {' or '.join(suffixes)}",
            remedy="Name another file.",
        )
    if path.is_dir():
        problem = "a folder of that name"
    elif not path.parent.is_dir():
        problem = f"no folder {path.parent}"
    elif not os.access(path.parent, os.W_OK):
        problem = f"a folder that is closed to you, {path.parent}"
    else:
        return
    raise CannotWrite(
        f"{path} cannot be written",
        got=problem,
        allowed="a file in a folder that can be written to",
        remedy="Make the folder, or name another file.",
    )


def write_answers(result: Answers, path: Path) -> None:
    """Write a CSV or JSON file, by its suffix; it is whole or not there."""
    check_target(path, *SUFFIXES)
    with disk_errors(path):
        if path.suffix.lower() == ".json":
            write_json(path, answers_as_json(result))
        else:
            write_text(path, answers_as_csv(result))


def answers_as_csv(result: Answers) -> str:
    """Write a line for each answer, in the order of the queries.

    `place` counts from 1 and skips what could not be read; `set` is a JSON list. A spreadsheet
    would compute a name or label that begins with =, +, - or @: such cells that are not numbers get
    an apostrophe in front. JSON keeps them as they are.
    """
    shown = max((len(answer.top) for answer in result.answers), default=1)
    extra = [f"{what}_{rank}" for rank in range(2, shown + 1) for what in ("label", "probability")]
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["place", "name", "label", "probability", "set", "novelty", *extra])
    for answer in result.answers:
        others = [cell for label, p in answer.top[1:] for cell in (_harmless(label), _rounded(p))]
        writer.writerow(
            [
                answer.place + 1,
                _harmless(answer.name),
                _harmless(answer.label),
                _rounded(answer.probability),
                json.dumps(answer.members, ensure_ascii=False),
                _rounded(answer.novelty),
                *others,
            ]
        )
    return file.getvalue()


def answers_as_json(result: Answers) -> dict[str, Any]:
    """Return all that is known, for `json`."""
    return {
        "format": FORMAT,
        "modality": str(result.modality),
        "encoder": result.encoder,
        "examples": dict(result.examples),
        "coverage": result.coverage,
        "joint": result.joint,
        "answers": [
            {
                "place": answer.place + 1,
                "name": answer.name,
                "label": answer.label,
                "probability": _rounded(answer.probability),
                "set": list(answer.members),
                "novelty": _rounded(answer.novelty),
                "top": [{"label": label, "probability": _rounded(p)} for label, p in answer.top],
            }
            for answer in result.answers
        ],
        "unreadable": [
            {"source": item.among, "name": item.name, "reason": item.reason}
            for item in result.unreadable
        ],
        "repeated": list(result.repeated),
    }


def _rounded(value: float) -> float:
    return round(value, DIGITS)


def _harmless(cell: str) -> str:
    risky = cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{cell}" if risky and not NUMBER.fullmatch(cell) else cell
