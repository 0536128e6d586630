"""Store results in one file per table and protocol, so that nothing is measured twice."""

import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.benchmark.suites import BenchTable
from unitail.configuration import from_table, to_table
from unitail.errors import optional
from unitail.evaluation.metrics import Calibration
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Evaluation, Outcome, Scores
from unitail.files import disk_errors, lock, write_bytes

FORMAT = 1
"""Version of the file layout; results in another version are measured again."""
KEY = b"unitail"
"""Metadata key of a file for everything that is not a per-episode number."""
LOCK_FILE = ".lock"


@dataclass(frozen=True, kw_only=True, eq=False)
class TableResult:
    """Evaluations of all learners on one table with one protocol."""

    table: BenchTable
    protocol: EvaluationProtocol
    """The protocol as specified; the evaluations have it as fitted to the table."""
    evaluations: Mapping[str, Evaluation]
    """Evaluations, by name of the learner."""


@dataclass(frozen=True, eq=False)
class StoredEvaluation:
    """The stored result of a learner."""

    fingerprint: str
    """Fingerprint of the learner that was measured."""
    evaluation: Evaluation


@dataclass(frozen=True)
class ResultStore:
    """A folder of results."""

    folder: Path

    @contextmanager
    def alone(self, shard: tuple[int, int] = (0, 1)) -> Iterator[None]:
        """Lock the folder against other benchmarks of the same shard, and hide it from Git."""
        index, count = shard
        path = self.folder / (LOCK_FILE if count == 1 else f"{LOCK_FILE}.{index}.{count}")
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / ".gitignore").write_text("*\n")
            file = path.open("w")
        with file:
            lock(path, file.fileno())
            yield

    def path(self, table: BenchTable, protocol: EvaluationProtocol) -> Path:
        """Return the file of a table and a protocol."""
        sizes = f"{protocol.queries} queries {protocol.episodes} episodes seed {protocol.seed}"
        words = f"{table.table.encoder} {table.table.name} {protocol.name} {sizes}"
        return self.folder / (re.sub(r"[^\w.()-]+", "_", words) + ".parquet")

    def read(self, table: BenchTable, protocol: EvaluationProtocol) -> dict[str, StoredEvaluation]:
        """Read the learners of a file; empty if its identity differs or it cannot be read."""
        parquet = optional("pyarrow.parquet", extra="report")
        try:
            content = parquet.read_table(self.path(table, protocol))
            record = json.loads(content.schema.metadata[KEY])
            if record["identity"] != _identity(table, protocol):
                return {}
            names = np.asarray(content["learner"])
            columns = {each.name: np.asarray(content[each.name]) for each in fields(Scores)}
            return {
                name: _from_entry(
                    entry, {key: value[names == name] for key, value in columns.items()}
                )
                for name, entry in record["learners"].items()
            }
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def write(
        self,
        table: BenchTable,
        protocol: EvaluationProtocol,
        learners: Mapping[str, StoredEvaluation],
    ) -> None:
        """Write a file atomically: a kill leaves either the old or the new one."""
        arrow = optional("pyarrow", extra="report")
        parquet = optional("pyarrow.parquet", extra="report")
        scores = [each.evaluation.scores for each in learners.values()]
        counts = [len(each.hashes) for each in scores]
        joined = Scores.joined(scores)
        columns = {"learner": np.repeat(np.array(list(learners), dtype=object), counts)}
        columns |= {each.name: getattr(joined, each.name) for each in fields(Scores)}
        record = {
            "identity": _identity(table, protocol),
            "learners": {name: _to_entry(each) for name, each in learners.items()},
        }
        content = arrow.table({name: arrow.array(column) for name, column in columns.items()})
        content = content.replace_schema_metadata({KEY: json.dumps(record)})
        buffer = io.BytesIO()
        parquet.write_table(content, buffer, compression="zstd")
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_bytes(self.path(table, protocol), buffer.getvalue())


def _identity(table: BenchTable, protocol: EvaluationProtocol) -> dict[str, Any]:
    """Return the identity that a file must match to be reused."""
    return {
        "format": FORMAT,
        "table": table.name,
        "classes": list(table.table.class_names),
        "bank": table.fingerprint,
        "protocol": to_table(protocol),
    }


def _to_entry(stored: StoredEvaluation) -> dict[str, Any]:
    """Convert everything but the per-episode numbers to plain values."""
    evaluation = stored.evaluation
    bins = {
        each.name: getattr(evaluation.calibration, each.name).tolist()
        for each in fields(Calibration)
    }
    return {
        "fingerprint": stored.fingerprint,
        "source": evaluation.source,
        "protocol": to_table(evaluation.protocol),
        "device": evaluation.device,
        "outcome": evaluation.outcome.value,
        "reason": evaluation.reason,
        "calibration": bins,
    }


def _from_entry(entry: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> StoredEvaluation:
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
    return StoredEvaluation(entry["fingerprint"], evaluation)
