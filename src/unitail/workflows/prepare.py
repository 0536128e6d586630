"""A data set of the catalogue to feature banks: its files are read, checked and encoded.

What is done is not done again; a run that was broken off goes on where it was.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unitail.banks.manifest import FeatureType
from unitail.datasets.catalogue import Entry, Split
from unitail.datasets.reading import Found
from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Encoder
from unitail.inputs.items import LabelledItems
from unitail.processes import ProcessGroup
from unitail.progress import OnProgress
from unitail.wording import excerpt, shown
from unitail.workflows.encode_bank import MadeBank, encode_bank


@dataclass(frozen=True, eq=False)
class Prepared:
    """A data set that is read and checked, before it is encoded."""

    name: str
    """Of its bank."""
    examples: LabelledItems
    found: Found

    def folder(self, banks: Path, encoder: str) -> Path:
        """Return where its bank is, or will be."""
        return banks / encoder / self.name


def read_data_set(
    entry: Entry, root: Path, split: Split, *, any_version: bool = False
) -> Iterator[Prepared]:
    """Read the data sets of an entry: one, or those of a collection, one after the other."""
    for part in entry.parts(root, split):
        found = entry.read(part, split, any_version=any_version)
        files = [item for item in found.items if isinstance(item, Path)]
        names = [shown(path.relative_to(part.root)) for path in files] or [
            excerpt(str(text)) for text in found.items
        ]
        examples = LabelledItems(
            items=found.items,
            names=tuple(names),
            modality=entry.modality,
            ignored=tuple(f"{number:,} {reason}" for reason, number in found.left_out.items()),
            labels=tuple(found.labels),
        )
        yield Prepared(entry.bank_name(split, part), examples, found)


def encode_data_set(
    prepared: Prepared,
    encoder: Encoder[Any],
    banks: Path,
    *,
    cache: FeatureCache,
    processes: ProcessGroup,
    licence: str = "",
    dtype: FeatureType = FeatureType.FLOAT16,
    on_progress: OnProgress | None = None,
) -> MadeBank | None:
    """Encode a data set that was read; None in all processes but the first."""
    return encode_bank(
        prepared.examples,
        encoder,
        prepared.folder(banks, encoder.name),
        name=prepared.name,
        cache=cache,
        processes=processes,
        licence=licence,
        dtype=dtype,
        on_progress=on_progress,
    )
