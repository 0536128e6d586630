"""Write the report: report.html, README.md, and the plots that README.md shows."""

import re
from collections.abc import Sequence
from pathlib import Path

from unitail.files import disk_errors, write_bytes, write_text
from unitail.reproduction.markdown import markdown_page
from unitail.reproduction.page import html_page
from unitail.reproduction.report import Section, build_report
from unitail.reproduction.run import Measured

HTML_FILE = "report.html"
MARKDOWN_FILE = "README.md"


def write_report(
    folder: Path,
    measured: Sequence[Measured],
    *,
    command: str,
    swapped: Sequence[str] = (),
    learners: Sequence[str] = (),
    more: Sequence[Section] = (),
) -> None:
    """Write all files, each atomically: a kill leaves either the old or the new file."""
    report = build_report(measured, command=command, swapped=swapped, learners=learners, more=more)
    pictures: dict[str, str] = {}
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for section in report.sections:
            for caption, png in (section.pictures or {}).items():
                pictures[caption] = f"{re.sub(r'[^A-Za-z0-9]+', '-', caption).strip('-')}.png"
                write_bytes(folder / pictures[caption], png)
        write_text(folder / MARKDOWN_FILE, markdown_page(report, pictures))
        write_text(folder / HTML_FILE, html_page(report))
