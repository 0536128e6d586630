"""Labelled files to a feature bank, in one process or several.

Every process encodes its shard of the items into the feature cache, which they share; then the
first one writes the bank from it. A run that is broken off finds in the cache what it had encoded,
and in the unfinished bank the rows that it had written.
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
from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.encoding import Failure, Vectors, encode_items
from unitail.encoders.hashing import content_hash
from unitail.encoders.registry import default_encoder, make_encoder
from unitail.errors import InvalidInput, UnknownEncoder
from unitail.inputs.items import LabelledItems
from unitail.own_code import is_own, own_object
from unitail.processes import ProcessGroup
from unitail.progress import OnProgress

ANOTHER = "Delete it to encode again, or name another folder."
"""What to do where a bank of other items is in the way."""
CHUNK = 1024
"""Items that are encoded, and then written, at a time."""


@dataclass(frozen=True, eq=False)
class MadeBank:
    """The bank and what is not in it."""

    bank: FeatureBank
    unreadable: tuple[Failure, ...]
    """Places among the items, and why they could not be read."""


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
    """Make the bank `folder`; None in all processes but the first.

    The same call goes on with what an earlier one left, and only opens a bank that is complete and
    was made from the same items by the same encoder. Items that cannot be read are left out.
    """
    check_modality(examples.modality)
    mine = _encoded(encoder, examples.items[processes.index :: processes.count], cache, on_progress)
    kept, unreadable = _readable(mine)
    processes.wait()
    if not processes.is_main:
        return None
    if processes.count > 1:  # all is in the cache by now, but for what cannot be read
        kept, unreadable = _readable(_encoded(encoder, examples.items, cache))
    _check_some(kept, unreadable)
    content = _Content.of(examples, encoder, kept, name=name, licence=licence, dtype=dtype)
    return MadeBank(content.write(encoder, cache, folder), unreadable)


def _encoded(
    encoder: Encoder[Any],
    items: Sequence[Any],
    cache: FeatureCache,
    on_progress: OnProgress | None = None,
) -> Iterator[tuple[int, Vectors]]:
    """Encode chunk by chunk, giving the place of each chunk's first item."""
    for start in range(0, len(items), CHUNK):

        def show(done: int, _: int, start: int = start) -> None:
            if on_progress is not None:
                on_progress(start + done, len(items))

        chunk = items[start : start + CHUNK]
        yield start, encode_items(encoder, chunk, cache=cache, on_progress=show)


def _readable(
    chunks: Iterator[tuple[int, Vectors]],
) -> tuple[NDArray[np.int64], tuple[Failure, ...]]:
    """Return the places of the items that have vectors, and the other items."""
    kept, unreadable = [np.empty(0, np.int64)], []
    for start, vectors in chunks:
        kept.append(start + vectors.kept)
        unreadable += [Failure(start + each.place, each.reason) for each in vectors.unreadable]
    return np.concatenate(kept), tuple(unreadable)


@dataclass(frozen=True, eq=False)
class _Content:
    """What the bank will hold."""

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
        **facts: Any,  # noqa: ANN401 - further fields of the manifest
    ) -> "_Content":
        items = [examples.items[place] for place in kept]
        labels = np.array([examples.labels[place] for place in kept], dtype=object)
        names, indices = np.unique(labels, return_inverse=True)
        manifest = BankManifest(
            encoder=encoder.name,
            encoder_revision=encoder.fingerprint,
            source=source_of(len(items), encoder.modality, _digest(items, labels)),
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
            begun = writer.rows_written
            for start, vectors in _encoded(encoder, self.items[begun:], cache):
                _check_some(vectors.kept, vectors.unreadable, whole=True)
                rows = slice(begun + start, begun + start + len(vectors.kept))
                writer.append(vectors.features, self.class_indices[rows])
        return FeatureBank.open(folder)


def source_of(rows: int, modality: Modality, digest: str) -> str:
    """Say what a bank was made from."""
    return f"{rows} {modality} items, sha256 {digest}"


def _digest(items: Sequence[Any], labels: NDArray[Any]) -> str:
    """Hash contents and labels, so that a bank of other ones is never taken for this."""
    digest = hashlib.sha256()
    for item, label in zip(items, labels, strict=True):
        digest.update(f"{content_hash(item)} {label}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def encoder_for(name: str | None, modality: Modality, device: str) -> Encoder[Any]:
    """Return the encoder of that name, the usual one, or the user's own: FILE.py:NAME."""
    check_modality(modality)
    if name is None or not is_own(name):
        return make_encoder(name or default_encoder(modality), modality, device=device)
    maker = own_object(name, "read", "embed")
    if not isinstance(maker, Encoder) or maker.modality is not modality:
        raise UnknownEncoder(
            f"{name} is no encoder for {modality} items",
            got=f"{type(maker).__name__} for {getattr(maker, 'modality', 'nothing')}",
            allowed=f"an unitail.Encoder whose modality is Modality.{modality.name}",
        )
    return maker


def check_modality(modality: Modality) -> None:
    """Refuse rows of tables, which are encoded by what is learned from each support."""
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
            remedy="Fix them and run again; it goes on where it stopped.",
        )
