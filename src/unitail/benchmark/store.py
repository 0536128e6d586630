"""A part of a benchmark in a file: all learners on one table with one protocol."""

import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from unitail.benchmark.report_extra import optional
from unitail.benchmark.suites import BenchTable
from unitail.configuration import from_table, to_table
from unitail.evaluation.metrics import Calibration
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Evaluation, Outcome, Scores
from unitail.files import disk_errors, write_bytes

FORMAT = 1
"""The version of the files' layout; parts of another one are made again."""
KEY = b"unitail"
"""Where a file keeps what is not a number for each episode."""


@dataclass(frozen=True, eq=False)
class Stored:
    """What is kept of a learner."""

    fingerprint: str
    """Of the learner that was measured."""
    evaluation: Evaluation


def part_path(folder: Path, table: BenchTable, protocol: EvaluationProtocol) -> Path:
    """Return where the part of a table and a protocol is kept."""
    words = (
        *(table.table.encoder, table.table.name, protocol.name),
        *(f"{protocol.queries} queries", f"{protocol.episodes} episodes", f"seed {protocol.seed}"),
    )
    return folder / (re.sub(r"[^\w.()-]+", "_", " ".join(words)) + ".parquet")


def identity(table: BenchTable, protocol: EvaluationProtocol) -> dict[str, Any]:
    """Return what a part must be about to be used again."""
    return {
        "format": FORMAT,
        "table": table.name,
        "classes": list(table.table.class_names),
        "bank": table.bank.fingerprint,
        "protocol": to_table(protocol),
    }


def read_part(path: Path, wanted: Mapping[str, Any]) -> dict[str, Stored]:
    """Read the learners of a part; none if it is about something else, or cannot be read."""
    parquet = optional("pyarrow.parquet")
    try:
        table = parquet.read_table(path)
        record = json.loads(table.schema.metadata[KEY])
        if record["identity"] != wanted:
            return {}
        names = np.asarray(table["learner"])
        columns = {each.name: np.asarray(table[each.name]) for each in fields(Scores)}
        return {
            name: _stored(entry, {key: column[names == name] for key, column in columns.items()})
            for name, entry in record["learners"].items()
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def write_part(path: Path, about: Mapping[str, Any], learners: Mapping[str, Stored]) -> None:
    """Write a part; whenever the process is killed, the file is the old one or the new one."""
    arrow, parquet = optional("pyarrow"), optional("pyarrow.parquet")
    counts = [len(stored.evaluation.scores.hashes) for stored in learners.values()]
    scores = Scores.joined([stored.evaluation.scores for stored in learners.values()])
    columns = {"learner": np.repeat(np.array(list(learners), dtype=object), counts)}
    columns |= {each.name: getattr(scores, each.name) for each in fields(Scores)}
    record = {
        "identity": dict(about),
        "learners": {name: _entry(stored) for name, stored in learners.items()},
    }
    table = arrow.table({name: arrow.array(column) for name, column in columns.items()})
    buffer = io.BytesIO()
    parquet.write_table(
        table.replace_schema_metadata({KEY: json.dumps(record)}), buffer, compression="zstd"
    )
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, buffer.getvalue())


def _entry(stored: Stored) -> dict[str, Any]:
    """Turn what is not a number for each episode into plain values."""
    found = stored.evaluation
    return {
        "fingerprint": stored.fingerprint,
        "source": found.source,
        "protocol": to_table(found.protocol),
        "device": found.device,
        "outcome": found.outcome.value,
        "reason": found.reason,
        "calibration": {
            each.name: getattr(found.calibration, each.name).tolist()
            for each in fields(Calibration)
        },
    }


def _stored(entry: Mapping[str, Any], columns: Mapping[str, Any]) -> Stored:
    """Undo `_entry`."""
    bins = {name: np.array(values) for name, values in entry["calibration"].items()}
    evaluation = Evaluation(
        source=entry["source"],
        protocol=from_table(EvaluationProtocol, entry["protocol"], "protocol"),
        device=entry["device"],
        outcome=Outcome(entry["outcome"]),
        reason=entry["reason"],
        scores=Scores(**columns),
        calibration=Calibration(**bins),
    )
    return Stored(entry["fingerprint"], evaluation)
