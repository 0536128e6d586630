"""Encode labelled files to a feature bank, in one process or several.

Every process encodes its shard of the items into the shared feature cache; then the first one
writes the bank from it. An interrupted run resumes from the vectors in the cache and the rows in
the unfinished bank.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.banks.bank import FeatureBank
from unitail.banks.manifest import BankManifest, FeatureType
from unitail.banks.writer import BankWriter
from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Encoder, Failure, Modality, Vectors
from unitail.encoders.encoding import encode_items
from unitail.encoders.registry import default_encoder, make_encoder
from unitail.errors import InvalidInput, UnknownEncoder
from unitail.inputs.items import LabelledItems
from unitail.own_code import is_own, own_object
from unitail.processes import ProcessGroup
from unitail.progress import OnProgress

ANOTHER = "Delete it to encode again, or name another folder."
"""Remedy if the folder holds a bank of other items."""
CHUNK = 1024
"""Number of items that are encoded, and then written, at a time."""


@dataclass(frozen=True, eq=False)
class MadeBank:
    """A new bank, and the items that are not in it."""

    bank: FeatureBank
    unreadable: tuple[Failure, ...]
    """Indices of unreadable items, with the reasons."""


def encode_bank(
    examples: LabelledItems,
    encoder: Encoder[Any],
    folder: Path,
    *,
    name: str,
    cache: FeatureCache,
    processes: ProcessGroup,
    licence: str = "",
    dtype: FeatureType = FeatureType.FLOAT16,
    on_progress: OnProgress | None = None,
) -> MadeBank | None:
    """Write the bank `folder` and return it; None in all processes but the first.

    Repeating the call resumes an interrupted run, and opens the bank if it is complete and was made
    from the same items by the same encoder. Unreadable items are left out.
    """
    check_modality(examples.modality)
    shard = examples.items[processes.index :: processes.count]
    kept, hashes, unreadable = _readable(_encoded(encoder, shard, cache, on_progress))
    processes.wait()
    if not processes.is_main:
        return None
    if processes.count > 1:  # all vectors are in the cache now
        kept, hashes, unreadable = _readable(_encoded(encoder, examples.items, cache))
    _check_some(kept, unreadable)
    content = _Content.of(examples, encoder, kept, hashes, name=name, licence=licence, dtype=dtype)
    return MadeBank(content.write(encoder, cache, folder), unreadable)


def _encoded(
    encoder: Encoder[Any],
    items: Sequence[Any],
    cache: FeatureCache,
    on_progress: OnProgress | None = None,
) -> Iterator[tuple[int, Vectors]]:
    """Encode items in chunks; yield the index of each chunk's first item, and the vectors."""
    for start in range(0, len(items), CHUNK):

        def show(done: int, _: int, start: int = start) -> None:
            if on_progress is not None:
                on_progress(start + done, len(items))

        chunk = items[start : start + CHUNK]
        yield start, encode_items(encoder, chunk, cache=cache, on_progress=show)


def _readable(
    chunks: Iterator[tuple[int, Vectors]],
) -> tuple[NDArray[np.int64], list[str], tuple[Failure, ...]]:
    """Return the indices and hashes of the items that have vectors, and the others' failures."""
    kept, hashes, unreadable = [np.empty(0, np.int64)], list[str](), list[Failure]()
    for start, vectors in chunks:
        kept.append(start + vectors.kept)
        hashes += vectors.hashes
        unreadable += [Failure(start + each.place, each.reason) for each in vectors.unreadable]
    return np.concatenate(kept), hashes, tuple(unreadable)


@dataclass(frozen=True, eq=False)
class _Content:
    """Content of the bank to write."""

    items: Sequence[Any]
    class_indices: NDArray[np.int64]
    class_names: tuple[str, ...]
    manifest: BankManifest

    @classmethod
    def of(
        cls,
        examples: LabelledItems,
        encoder: Encoder[Any],
        kept: NDArray[np.int64],
        hashes: Sequence[str],
        **facts: Any,  # noqa: ANN401 - further fields of the manifest
    ) -> "_Content":
        items = [examples.items[place] for place in kept]
        labels = np.array([examples.labels[place] for place in kept], dtype=object)
        names, indices = np.unique(labels, return_inverse=True)
        manifest = BankManifest(
            encoder=encoder.name,
            encoder_revision=encoder.fingerprint,
            source=source_of(len(items), encoder.modality, _digest(hashes, labels)),
            rows=len(items),
            feature_dim=encoder.width,
            **facts,
        )
        return cls(items, indices.astype(np.int64), tuple(map(str, names)), manifest)

    def write(self, encoder: Encoder[Any], cache: FeatureCache, folder: Path) -> FeatureBank:
        bank = FeatureBank.open_same(folder, self.manifest, self.class_names, ANOTHER)
        if bank is not None:
            return bank
        with BankWriter(folder, self.manifest, self.class_names) as writer:
            written = writer.rows_written
            for start, vectors in _encoded(encoder, self.items[written:], cache):
                _check_some(vectors.kept, vectors.unreadable, whole=True)
                rows = slice(written + start, written + start + len(vectors.kept))
                writer.append(vectors.features, self.class_indices[rows])
        return FeatureBank.open(folder)


def source_of(rows: int, modality: Modality, digest: str) -> str:
    """Return the manifest's description of the items that a bank was made from."""
    return f"{rows} {modality} items, sha256 {digest}"


def _digest(hashes: Sequence[str], labels: NDArray[Any]) -> str:
    """Hash the contents and labels, which identifies the items of a bank."""
    digest = hashlib.sha256()
    for content, label in zip(hashes, labels, strict=True):
        digest.update(f"{content} {label}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def encoder_for(name: str | None, modality: Modality, device: str) -> Encoder[Any]:
    """Return an encoder by name, the user's own (FILE.py:NAME), or the default if None."""
    check_modality(modality)
    if name is None or not is_own(name):
        return make_encoder(name or default_encoder(modality), modality, device=device)
    encoder = own_object(name, "read", "embed")
    if not isinstance(encoder, Encoder) or encoder.modality is not modality:
        raise UnknownEncoder(
            f"{name} is not an encoder for {modality} items",
            got=f"{type(encoder).__name__} for {getattr(encoder, 'modality', 'nothing')}",
            allowed=f"a unitail.Encoder whose modality is Modality.{modality.name}",
        )
    return encoder


def check_modality(modality: Modality) -> None:
    """Raise an error for rows of tables: their encoding is learned from each support."""
    if modality is Modality.TABLE:
        raise InvalidInput(
            "tables have no frozen encoder to make a bank with",
            got="columns of features",
            allowed="images, texts or sounds",
            remedy="Standardise the columns yourself and write them with `BankWriter`.",
        )


def _check_some(
    kept: NDArray[np.int64], unreadable: Sequence[Failure], *, whole: bool = False
) -> None:
    if not len(kept) or (whole and unreadable):
        raise InvalidInput(
            "items became unreadable while the bank was written" if whole else "nothing to encode",
            got=unreadable[0].reason,
            allowed="items that can be read",
            remedy="Fix them and run again; the run resumes where it stopped.",
        )
