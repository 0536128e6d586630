"""The result of a job: a folder with a Parquet file for each chunk, in the order of the rows.

A file is there whole or not at all, so a job that was broken off goes on with the chunks that have
none, and a chunk that was done twice is there once. Readers of partitioned Parquet take the folder
as it is: they pass over names that begin with "_".
"""

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from unitail.configuration import parse_json
from unitail.engines.engine import MAX_NAMED, ChunkReport
from unitail.engines.storage import Storage
from unitail.errors import CannotWrite, InvalidInput, optional

JOB_FILE, SUMMARY_FILE = "_job.json", "_summary.json"
CHUNK_FILE = re.compile(r"chunk-(\d{8})\.parquet")
REPORT = b"unitail"
"""The key of the report in the file of a chunk."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What came of all chunks."""

    chunks: int
    rows: int
    unreadable: int
    named: tuple[str, ...]
    """The first few that could not be read, and why."""
    counts: Mapping[str, int]
    seconds: Mapping[str, float]
    """How long each stage took, of all workers together."""

    @classmethod
    def of(cls, reports: Iterable[ChunkReport]) -> "Summary":
        """Add up."""
        ordered = sorted(reports, key=lambda report: report.index)
        counts: dict[str, int] = {}
        seconds: dict[str, float] = {}
        for report in ordered:
            for name, number in report.counts.items():
                counts[name] = counts.get(name, 0) + number
            for name, spent in report.seconds.items():
                seconds[name] = seconds.get(name, 0.0) + spent
        return cls(
            chunks=len(ordered),
            rows=sum(report.rows for report in ordered),
            unreadable=sum(report.unreadable for report in ordered),
            named=tuple(name for report in ordered for name in report.named)[:MAX_NAMED],
            counts=counts,
            seconds=seconds,
        )


class ChunkFolder:
    """Where workers put what they made of each chunk."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def begin(self, job: Mapping[str, Any]) -> dict[int, ChunkReport]:
        """Take the folder for a job, and return the reports of chunks that are there already."""
        names = self._names()
        if JOB_FILE in names:
            begun = self._told(JOB_FILE)
            if begun != json.loads(json.dumps(job)):
                other = [name for name in job if job[name] != begun.get(name)]
                raise CannotWrite(
                    f"{self.storage.name} holds the result of another job",
                    got=f"another {', '.join(other) or 'version'}",
                    allowed="a new folder, or one in which the same job was begun",
                    remedy="Name another folder, or remove it to begin anew.",
                )
        elif names:
            raise CannotWrite(
                f"{self.storage.name} is not empty",
                got=f"{len(names):,} files",
                allowed="a new folder, or one in which the same job was begun",
                remedy="Name another folder.",
            )
        else:
            self.storage.write(JOB_FILE, json.dumps(job, indent=2).encode())
        done = (CHUNK_FILE.fullmatch(name) for name in names)
        return {int(name[1]): self.report(int(name[1])) for name in done if name is not None}

    def write(self, table: Any, report: ChunkReport) -> None:  # noqa: ANN401 - a table of pyarrow
        """Write what came of a chunk, with the report on it."""
        parquet = optional("pyarrow.parquet", extra="scale")
        told = {**(table.schema.metadata or {}), REPORT: json.dumps(asdict(report)).encode()}
        file = io.BytesIO()
        parquet.write_table(table.replace_schema_metadata(told), file)
        self.storage.write(_name(report.index), file.getvalue())

    def read(self, index: int) -> Any:  # noqa: ANN401 - a table of pyarrow
        """Return what came of a chunk."""
        with self._open(index) as file:
            return file.read()

    def report(self, index: int) -> ChunkReport:
        """Return the report on a chunk that is there."""
        with self._open(index) as file:
            told = json.loads(file.schema_arrow.metadata[REPORT])
        return ChunkReport(**{**told, "named": tuple(told["named"])})

    @property
    def is_emptied(self) -> bool:
        """Whether all was done here, and then put together elsewhere."""
        names = self._names()
        return SUMMARY_FILE in names and not any(map(CHUNK_FILE.fullmatch, names))

    def empty(self) -> None:
        """Remove what came of the chunks; what was done stays known."""
        for name in filter(CHUNK_FILE.fullmatch, self._names()):
            self.storage.inside(name).remove()

    def summary(self) -> Summary:
        """Return what came of all chunks."""
        told = self._told(SUMMARY_FILE)
        return Summary(**{**told, "named": tuple(told["named"])})

    def finish(self, reports: Mapping[int, ChunkReport]) -> Summary:
        """Check that nothing is missing, and write what came of all."""
        assert sorted(reports) == list(range(len(reports))), "a chunk was lost"
        summary = Summary.of(reports.values())
        self.storage.write(SUMMARY_FILE, json.dumps(asdict(summary), indent=2).encode())
        return summary

    @contextmanager
    def _open(self, index: int) -> Iterator[Any]:
        parquet = optional("pyarrow.parquet", extra="scale")
        errors = optional("pyarrow", extra="scale").ArrowException
        with self.storage.inside(_name(index)).open() as file:
            try:
                yield parquet.ParquetFile(file)
            except (errors, OSError, KeyError, TypeError, ValueError) as error:
                raise self._damaged(_name(index), error) from error

    def _told(self, name: str) -> dict[str, Any]:
        content = self.storage.read(name)
        try:
            return {**parse_json(content)}
        except (TypeError, ValueError) as error:
            raise self._damaged(name, error) from error

    def _damaged(self, name: str, error: Exception) -> InvalidInput:
        chunk = CHUNK_FILE.fullmatch(name) is not None
        return InvalidInput(
            f"{self.storage.inside(name).name} is damaged",
            got=str(error).split("\n")[0],
            allowed="a file as the job wrote it",
            remedy="Remove the file, and run again: its rows are done anew."
            if chunk
            else "Remove the folder, and run again.",
        )

    def _names(self) -> list[str]:
        """List what is there, but for what a process that was killed had begun to write."""
        names = self.storage.names() if self.storage.exists else []
        return [name for name in names if not (name.startswith(".") and name.endswith(".new"))]


def _name(index: int) -> str:
    return f"chunk-{index:08}.parquet"
