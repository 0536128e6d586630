"""Write a feature bank from the results of a job, equal to the bank of a single process."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.banks.bank import FeatureBank
from unitail.banks.manifest import BankManifest, FeatureType
from unitail.banks.writer import BankWriter
from unitail.encoders.encoder import Encoder
from unitail.engines.chunk_results import ChunkFolder, Summary
from unitail.engines.encoding import ADDED
from unitail.errors import InvalidInput
from unitail.inputs.cells import labels_of
from unitail.inputs.table_files import prefix_beside
from unitail.workflows.encode_bank import ANOTHER, source_of


@dataclass(frozen=True, kw_only=True)
class BankFacts:
    """Fields of the manifest that do not follow from the rows."""

    name: str
    licence: str = ""
    dtype: FeatureType = FeatureType.FLOAT16


def write_bank(
    results: ChunkFolder,
    summary: Summary,
    encoder: Encoder[Any],
    folder: Path,
    facts: BankFacts,
    *,
    label_column: str,
) -> FeatureBank:
    """Write a bank of the rows that have a vector and a label, in their order.

    An unfinished bank is continued; a complete one is opened if it has the same content.
    """
    digest, labels = hashlib.sha256(), list[str]()
    for _, hashes, chunk_labels in _rows(results, summary, label_column):
        for content, label in zip(hashes, chunk_labels, strict=True):
            digest.update(f"{content} {label}\n".encode("utf-8", "surrogatepass"))
        labels += chunk_labels
    if len(set(labels)) < 2:
        raise InvalidInput(
            "a bank needs two classes or more",
            got=f"{len(labels):,} readable rows with a label, of {len(set(labels))} classes",
            allowed="readable rows with labels of several classes",
        )
    names, indices = np.unique(np.array(labels, dtype=object), return_inverse=True)
    manifest = BankManifest(
        name=facts.name,
        licence=facts.licence,
        dtype=facts.dtype,
        encoder=encoder.name,
        encoder_revision=encoder.fingerprint,
        source=source_of(len(labels), encoder.modality, digest.hexdigest()),
        rows=len(labels),
        feature_dim=encoder.width,
    )
    class_names = tuple(map(str, names))
    bank = FeatureBank.open_same(folder, manifest, class_names, ANOTHER)
    if bank is None:
        _append(results, summary, folder, manifest, class_names, indices, label_column)
    return FeatureBank.open(folder)


def _append(
    results: ChunkFolder,
    summary: Summary,
    folder: Path,
    manifest: BankManifest,
    class_names: tuple[str, ...],
    indices: NDArray[np.int64],
    label_column: str,
) -> None:
    with BankWriter(folder, manifest, class_names) as writer:
        place, begun = 0, writer.rows_written
        for vectors, _, labels in _rows(results, summary, label_column):
            stop = place + len(labels)
            first = max(place, begun)
            if first < stop:
                writer.append(vectors[first - place :], indices[first:stop].astype(np.int64))
            place = stop


def _rows(
    results: ChunkFolder, summary: Summary, label_column: str
) -> Iterator[tuple[NDArray[Any], list[str], list[str]]]:
    """Yield the vectors, hashes and labels of each chunk, for the rows that have all three."""
    for index in range(summary.chunks):
        table = results.read(index)
        user_columns = table.column_names[: -len(ADDED)]
        prefix = prefix_beside(user_columns, ADDED)
        labels = labels_of(table.column(label_column).to_pylist())
        column = table.column(f"{prefix}vector").combine_chunks()
        kept = np.flatnonzero(np.array(column.is_valid()) & np.array([bool(x) for x in labels]))
        hashes = table.column(f"{prefix}content").to_pylist()
        width = column.type.list_size
        flat = column.take(kept).flatten().to_numpy(zero_copy_only=False)
        yield flat.reshape(-1, width), [hashes[n] for n in kept], [labels[n] for n in kept]
