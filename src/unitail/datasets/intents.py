"""Intent data sets in the formats used for few-shot learning: texts with one label each."""

from dataclasses import dataclass
from pathlib import Path

from unitail.datasets.csv_index import CsvIndex
from unitail.datasets.loader import Found, OneSet, read_text
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput

TEXTS, LABELS = "seq.in", "label"
"""Files of a folder; both have one line per text."""


@dataclass(frozen=True, kw_only=True)
class IntentFiles(OneSet):
    """NAME.csv with the columns text and category, or a folder NAME with seq.in and label."""

    name: str

    def read(self, root: Path, modality: Modality) -> Found:
        """Read the folder if it exists, else the CSV file."""
        folder = root / self.name
        if not folder.is_dir():
            table = CsvIndex(file=f"{self.name}.csv", item="text", label="category")
            return table.read(root, modality)
        texts, labels = _lines(folder / TEXTS), _lines(folder / LABELS)
        if len(texts) != len(labels):
            raise InvalidInput(
                f"{folder} does not have a label for each text",
                got=f"{len(texts):,} lines in {TEXTS}, {len(labels):,} in {LABELS}",
                allowed="as many lines in both",
                remedy="Fetch the files again.",
            )
        pairs = [pair for pair in zip(texts, labels, strict=True) if all(pair)]
        incomplete = len(texts) - len(pairs)
        left_out = {"lines without a text or a label": incomplete} if incomplete else {}
        return Found([text for text, _ in pairs], [label for _, label in pairs], left_out)


def _lines(path: Path) -> list[str]:
    """Read all lines, including empty ones and those that begin with #."""
    lines = read_text(path).split("\n")
    return [line.strip() for line in lines[: -1 if lines[-1] == "" else None]]
