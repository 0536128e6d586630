"""Read and check the files of a data set in the catalogue, and encode them to feature banks.

Finished work is not repeated, and an interrupted run can be resumed.
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
"""Bytes per number in the cache, including overhead for keys and pages."""
MAX_SHARE = 0.5
"""Largest share of the cache for one data set: its last vectors must not evict its first ones."""
NO_LIMIT = 2**62


@dataclass(frozen=True, eq=False)
class Prepared:
    """A data set that was read and checked, ready to be encoded."""

    name: str
    """Name of its bank."""
    examples: LabelledItems
    found: Found

    def folder(self, banks: Path, encoder: str) -> Path:
        """Return the folder of its bank, which need not exist yet."""
        return banks / encoder / self.name


def read_data_set(
    entry: CatalogueEntry, root: Path, split: Split, *, any_version: bool = False
) -> Iterator[Prepared]:
    """Read the data set of an entry, or all data sets of a collection, one after the other."""
    for part in entry.parts(root, split):
        contents = entry.read(part, split, any_version=any_version)
        files = [item for item in contents.items if isinstance(item, Path)]
        names = [shown(path.relative_to(part.root)) for path in files] or [
            excerpt(str(text)) for text in contents.items
        ]
        examples = LabelledItems(
            items=contents.items,
            names=tuple(names),
            modality=entry.modality,
            ignored=tuple(f"{number:,} {reason}" for reason, number in contents.left_out.items()),
            labels=tuple(contents.labels),
        )
        yield Prepared(entry.bank_name(split, part), examples, contents)


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
    """Encode a prepared data set to a bank; None in all processes but the first.

    A data set too large for the cache gets a temporary cache of its own beside the bank.
    """
    folder = prepared.folder(banks, encoder.name)
    needed = len(prepared.examples) * encoder.width * CACHED_BYTES
    temporary = folder.with_name(f".{folder.name}.vectors")
    large = needed > cache.limit_bytes * MAX_SHARE
    made = encode_bank(
        prepared.examples,
        encoder,
        folder,
        name=prepared.name,
        cache=FeatureCache(temporary, limit_bytes=NO_LIMIT) if large else cache,
        processes=processes,
        licence=licence,
        dtype=dtype,
        on_progress=on_progress,
    )
    if made is not None:
        shutil.rmtree(temporary, ignore_errors=True)
    return made
