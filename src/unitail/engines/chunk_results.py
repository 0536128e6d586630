"""The result of a job: a folder with one Parquet file per chunk, in the order of the rows.

Files are written atomically, so an interrupted job resumes with the chunks that have no file, and a
chunk that was processed twice is there once. Readers of partitioned Parquet can open the folder:
they ignore names that begin with "_".
"""

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from unitail.configuration import parse_json
from unitail.engines.engine import MAX_NAMED, ChunkReport
from unitail.engines.storage import Storage
from unitail.errors import CannotWrite, InvalidInput, optional

JOB_FILE, SUMMARY_FILE = "_job.json", "_summary.json"
CHUNK_FILE = re.compile(r"chunk-(\d{8})\.parquet")
REPORT = b"unitail"
"""Key of the report in the metadata of a chunk's file."""
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Totals over all chunks of a job."""

    chunks: int
    rows: int
    unreadable: int
    named: tuple[str, ...]
    """The first few unreadable items, with the reasons."""
    counts: Mapping[str, int]
    seconds: Mapping[str, float]
    """Duration of each stage, summed over all workers."""
    unread_cells: Mapping[str, int] = field(default_factory=dict)
    """Number of cells by column that count as missing: no number or date in its format."""

    @classmethod
    def of(cls, reports: Iterable[ChunkReport]) -> "Summary":
        """Add up the reports on all chunks."""
        ordered = sorted(reports, key=lambda report: report.index)
        return cls(
            chunks=len(ordered),
            rows=sum(report.rows for report in ordered),
            unreadable=sum(report.unreadable for report in ordered),
            named=tuple(name for report in ordered for name in report.named)[:MAX_NAMED],
            counts=_added(report.counts for report in ordered),
            seconds=_added(report.seconds for report in ordered),
            unread_cells=_added(report.unread_cells for report in ordered),
        )


class ChunkFolder:
    """The folder where workers write the result of each chunk."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def begin(self, job: Mapping[str, Any]) -> dict[int, ChunkReport]:
        """Start or resume a job in the folder; return the reports on chunks that are finished."""
        names = self._names()
        if JOB_FILE in names:
            begun = self._read_json(JOB_FILE)
            if begun != json.loads(json.dumps(job)):
                other = [name for name in job if job[name] != begun.get(name)]
                raise CannotWrite(
                    f"{self.storage.name} holds the result of another job",
                    got=f"another {', '.join(other) or 'version'}",
                    allowed="a new folder, or one in which the same job was started",
                    remedy="Name another folder, or remove it to start again.",
                )
        elif names:
            raise CannotWrite(
                f"{self.storage.name} is not empty",
                got=f"{len(names):,} files",
                allowed="a new folder, or one in which the same job was started",
                remedy="Name another folder.",
            )
        else:
            self.storage.write(JOB_FILE, json.dumps(job, indent=2).encode())
        done = (CHUNK_FILE.fullmatch(name) for name in names)
        return {int(name[1]): self.report(int(name[1])) for name in done if name is not None}

    def write(self, table: Any, report: ChunkReport) -> None:  # noqa: ANN401 - a table of pyarrow
        """Write the result of a chunk, with its report in the metadata."""
        parquet = optional("pyarrow.parquet", extra="scale")
        metadata = {**(table.schema.metadata or {}), REPORT: json.dumps(asdict(report)).encode()}
        file = io.BytesIO()
        parquet.write_table(table.replace_schema_metadata(metadata), file)
        self.storage.write(_name(report.index), file.getvalue())

    def read(self, index: int) -> Any:  # noqa: ANN401 - a table of pyarrow
        """Return the result of a chunk."""
        with self._open(index) as file:
            return file.read()

    def report(self, index: int) -> ChunkReport:
        """Return the report on a finished chunk."""
        with self._open(index) as file:
            fields = json.loads(file.schema_arrow.metadata[REPORT])
        return ChunkReport(**{**fields, "named": tuple(fields["named"])})

    @property
    def is_emptied(self) -> bool:
        """Whether the job is complete and its chunks were removed, as they are in a bank now."""
        names = self._names()
        return SUMMARY_FILE in names and not any(map(CHUNK_FILE.fullmatch, names))

    def empty(self) -> None:
        """Remove the results of the chunks; the description and the summary of the job stay."""
        for name in filter(CHUNK_FILE.fullmatch, self._names()):
            self.storage.inside(name).remove()

    def summary(self) -> Summary:
        """Return the stored totals over all chunks."""
        fields = self._read_json(SUMMARY_FILE)
        return Summary(**{**fields, "named": tuple(fields["named"])})

    def finish(self, reports: Mapping[int, ChunkReport]) -> Summary:
        """Check that no chunk is missing, and write and return the totals."""
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

    def _read_json(self, name: str) -> dict[str, Any]:
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
            remedy="Remove the file, and run again: its rows are processed again."
            if chunk
            else "Remove the folder, and run again.",
        )

    def _names(self) -> list[str]:
        """List the files in the folder, without temporary ones left by a killed process."""
        names = self.storage.names() if self.storage.exists else []
        return [name for name in names if not (name.startswith(".") and name.endswith(".new"))]


def _name(index: int) -> str:
    return f"chunk-{index:08}.parquet"


def _added(numbers: Iterable[Mapping[str, Number]]) -> dict[str, Number]:
    """Add up numbers by name."""
    total: dict[str, Number] = {}
    for each in numbers:
        for name, number in each.items():
            total[name] = total[name] + number if name in total else number
    return total
