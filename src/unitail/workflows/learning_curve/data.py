"""A user's labelled examples as rows of vectors to estimate from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Modality
from unitail.estimator.rows import Rows
from unitail.inputs.encode import Unread, encode, long_texts, unread_items
from unitail.inputs.input_encoder import InputEncoder
from unitail.inputs.items import LabelledItems
from unitail.progress import OnProgress
from unitail.wording import numbered, some
from unitail.workflows.learning_curve.splits import thinned
from unitail.workflows.predict import choose_for

TABLE_NOTE = (
    "Scales and categories of columns are learned from all rows, those asked about among them:"
    " the estimate is slightly too good"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnData:
    """Vectors of the examples that could be read, each content once."""

    rows: Rows
    classes: tuple[str, ...]
    """The names of the classes 0..K-1; one without a readable example is not among them."""
    modality: Modality
    made_by: InputEncoder
    """What made the vectors."""
    names: tuple[str, ...] = ()
    """What to call each row before the user."""
    unreadable: tuple[Unread, ...] = ()
    notes: tuple[str, ...] = ()
    """What else the user should know, a phrase each."""

    @property
    def encoder(self) -> str:
        """The name of what made the vectors."""
        return self.made_by.name


def encode_own(
    examples: LabelledItems,
    *,
    encoder: str | None = None,
    device: str = "auto",
    cache: FeatureCache | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> OwnData:
    """Encode labelled examples once; without `encoder` by the modality's default.

    Of files or texts of equal content in a class all but the first are left out: asked about one
    and shown the other, any learner would be right. Of very many examples some are drawn by `seed`.
    """
    by = choose_for(examples, encoder, device)
    [vectors] = encode(
        by, examples.items, on_unreadable="skip", cache=cache, on_progress=on_progress
    )
    labels = np.array([examples.labels[place] for place in vectors.kept], dtype=object)
    is_table = examples.modality is Modality.TABLE
    chosen = np.arange(len(labels)) if is_table else _first_of_each(vectors.features, labels)
    notes = [*by.notes, *long_texts(by, examples.items), *([TABLE_NOTE] if is_table else [])]
    if len(chosen) < len(labels):
        twice = numbered(len(labels) - len(chosen), "example")
        notes.append(f"{twice} equal to another of the same class: left out")
    names = np.array([examples.names[place] for place in vectors.kept], dtype=object)
    return _own(
        vectors.features[chosen],
        labels[chosen],
        names[chosen],
        seed,
        modality=examples.modality,
        made_by=by,
        unreadable=unread_items("examples", examples, vectors),
        notes=notes,
    )


def _first_of_each(features: NDArray[np.float32], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of the first row of each label and vector, in order."""
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
        most = int(rows.take(kept).shots.max())
        notes.append(
            f"{len(kept):,} of {len(labels):,} examples were drawn for the estimate, at most"
            f" {most:,} of a class"
        )
    alone = classes[rows.shots == 1]
    if len(alone):
        notes.append(f"Never asked about, with one example only: {some(alone, 5)}")
    return OwnData(
        rows=rows.take(kept),
        classes=tuple(classes),
        names=tuple(names[kept]),
        notes=tuple(notes),
        **facts,
    )
