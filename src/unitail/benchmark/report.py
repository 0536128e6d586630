"""From the parts of a benchmark to a folder of results: numbers, tables and pictures."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unitail.benchmark.compare import ROWS_FILE
from unitail.benchmark.markdown import RELIABILITY_FILE, picture_name, readme
from unitail.benchmark.plots import draw_accuracy, draw_reliability
from unitail.benchmark.report_extra import optional
from unitail.benchmark.run import Part
from unitail.benchmark.tables import (
    Frame,
    calibration_frame,
    group_frame,
    rows_table,
    summary_frame,
)
from unitail.files import disk_errors, write_bytes, write_text

CALIBRATION_FILE = "calibration.parquet"
SUMMARY_FILE = "summary.csv"
README_FILE = "README.md"
BYTE_BY_BYTE = ("nll", "brier")
"""The columns in which hardly a number comes twice."""


def write_report(
    folder: Path, parts: Sequence[Part], *, title: str, command: str, notes: Sequence[str] = ()
) -> Frame:
    """Write the results into `folder` and return the means of the groups.

    `command` is what made them; `notes` are sentences that a reader should know.
    """
    summary, calibration = summary_frame(parts), calibration_frame(parts)
    groups = group_frame(summary)
    arrow = optional("pyarrow")
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _write_parquet(folder / ROWS_FILE, rows_table(parts))
        bins = arrow.Table.from_pandas(calibration, preserve_index=False)
        _write_parquet(folder / CALIBRATION_FILE, bins)
        write_text(folder / SUMMARY_FILE, summary.to_csv(index=False, float_format="%.6g"))
        for protocol, part in groups.groupby("protocol", sort=False):
            write_bytes(folder / picture_name(protocol), draw_accuracy(part, protocol))
        if len(calibration):
            write_bytes(folder / RELIABILITY_FILE, draw_reliability(calibration))
        write_text(folder / README_FILE, readme(title, command, summary, groups, notes))
    return groups


def _write_parquet(path: Path, table: Any) -> None:  # noqa: ANN401 - of an optional package
    """Write a table; what hardly repeats is stored byte by byte, which compresses best."""
    buffer = io.BytesIO()
    split = [name for name in BYTE_BY_BYTE if name in table.column_names]
    optional("pyarrow.parquet").write_table(
        table,
        buffer,
        compression="zstd",
        compression_level=9,
        use_dictionary=[name for name in table.column_names if name not in split],
        column_encoding=dict.fromkeys(split, "BYTE_STREAM_SPLIT"),
    )
    write_bytes(path, buffer.getvalue())
