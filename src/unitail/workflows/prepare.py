"""A data set of the catalogue to feature banks: its files are read, checked and encoded.

What is done is not done again; a run that was broken off goes on where it was.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unitail.banks.manifest import FeatureType
from unitail.datasets.catalogue import CatalogueEntry, Split
from unitail.datasets.loader import Found
from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Encoder
from unitail.inputs.items import LabelledItems
from unitail.processes import ProcessGroup
from unitail.progress import OnProgress
from unitail.wording import excerpt, shown
from unitail.workflows.encode_bank import MadeBank, encode_bank

CACHED_BYTES = 6
"""That a number takes in the cache, with its share of keys and pages."""
MAX_SHARE = 0.5
"""Of the cache, that a data set may take: what is encoded last must not push out what was first."""
NO_LIMIT = 2**62


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
    entry: CatalogueEntry, root: Path, split: Split, *, any_version: bool = False
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
    """Encode a data set that was read; None in all processes but the first.

    A data set too large for the cache has one of its own beside the bank, until that is complete.
    """
    folder = prepared.folder(banks, encoder.name)
    needed = len(prepared.examples) * encoder.width * CACHED_BYTES
    own = folder.with_name(f".{folder.name}.vectors")
    large = needed > cache.limit_bytes * MAX_SHARE
    made = encode_bank(
        prepared.examples,
        encoder,
        folder,
        name=prepared.name,
        cache=FeatureCache(own, limit_bytes=NO_LIMIT) if large else cache,
        processes=processes,
        licence=licence,
        dtype=dtype,
        on_progress=on_progress,
    )
    if made is not None:
        shutil.rmtree(own, ignore_errors=True)
    return made
