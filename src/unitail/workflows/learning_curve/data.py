"""Encode a user's labelled examples for the estimate of a learning curve."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Modality
from unitail.estimator.rows import Rows
from unitail.inputs.encode import Among, Unread, encode, unread_items
from unitail.inputs.input_encoder import InputEncoder
from unitail.inputs.items import LabelledItems
from unitail.progress import OnProgress
from unitail.wording import numbered, some
from unitail.workflows.fit import BY_DEFAULT, ClassifierOptions
from unitail.workflows.learning_curve.splits import thinned

TABLE_NOTE = (
    "Scales and categories of columns are learned from all rows, including those that are left out:"
    " the estimate is slightly optimistic"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnData:
    """Vectors of the readable examples, without duplicates."""

    rows: Rows
    classes: tuple[str, ...]
    """Names of the classes 0..K-1; classes without a readable example are left out."""
    modality: Modality
    made_by: InputEncoder
    """The encoder of the vectors."""
    names: tuple[str, ...] = ()
    """Name of each row in messages."""
    unreadable: tuple[Unread, ...] = ()
    notes: tuple[str, ...] = ()
    """Further notes for the user, a phrase each."""

    @property
    def encoder(self) -> str:
        """The name of the encoder."""
        return self.made_by.name


def encode_own(
    examples: LabelledItems,
    options: ClassifierOptions = BY_DEFAULT,
    *,
    cache: FeatureCache | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> OwnData:
    """Encode labelled examples the way `unitail predict` does with these options.

    Duplicate files or texts of a class are left out, except the first: a learner that sees one
    would always be right about the other. Very many examples are subsampled with `seed`.
    """
    chosen_encoder = options.encoder_for(examples)
    [vectors] = encode(
        chosen_encoder, examples.items, on_unreadable="skip", cache=cache, on_progress=on_progress
    )
    labels = np.array([examples.labels[place] for place in vectors.kept], dtype=object)
    is_table = examples.modality is Modality.TABLE
    chosen = np.arange(len(labels)) if is_table else _first_of_each(vectors.features, labels)
    notes = [
        *chosen_encoder.notes,
        *chosen_encoder.notes_on(examples.items),
        *([TABLE_NOTE] if is_table else []),
    ]
    if len(chosen) < len(labels):
        duplicates = numbered(len(labels) - len(chosen), "example")
        notes.append(f"{duplicates} equal to another of the same class: left out")
    names = np.array([examples.names[place] for place in vectors.kept], dtype=object)
    return _own(
        vectors.features[chosen],
        labels[chosen],
        names[chosen],
        seed,
        modality=examples.modality,
        made_by=chosen_encoder,
        unreadable=unread_items(Among.EXAMPLES, examples, vectors),
        notes=notes,
    )


def _first_of_each(features: NDArray[np.float32], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the indices of the first row of each pair of label and vector, in order."""
    seen: dict[tuple[str, bytes], int] = {}
    for place, (label, row) in enumerate(zip(labels, features, strict=True)):
        seen.setdefault((label, row.tobytes()), place)
    return np.array(list(seen.values()), dtype=np.int64)


def _own(
    features: NDArray[np.float32],
    labels: NDArray[Any],
    names: NDArray[Any],
    seed: int,
    *,
    notes: list[str],
    **facts: Any,  # noqa: ANN401 - the other fields
) -> OwnData:
    classes, indices = np.unique(labels, return_inverse=True)
    rows = Rows(features, indices.astype(np.int64), len(classes))
    kept = thinned(rows, seed)
    if len(kept) < len(labels):
        largest = int(rows.take(kept).shots.max())
        notes.append(
            f"{len(kept):,} of {len(labels):,} examples were drawn for the estimate, at most"
            f" {largest:,} per class"
        )
    single = classes[rows.shots == 1]
    if len(single):
        notes.append(f"Not tested, as they have only one example: {some(single, 5)}")
    return OwnData(
        rows=rows.take(kept),
        classes=tuple(classes),
        names=tuple(names[kept]),
        notes=tuple(notes),
        **facts,
    )
