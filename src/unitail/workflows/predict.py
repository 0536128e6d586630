"""A user's labelled examples and items in, answers out."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.configuration import require
from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Modality
from unitail.encoders.encoding import encode_items
from unitail.encoders.registry import default_encoder, make_encoder
from unitail.encoders.tables import TableEncoder
from unitail.errors import InvalidSource, UnknownEncoder
from unitail.estimator.classifier import TailClassifier
from unitail.tasks.sources import Items, LabelledItems
from unitail.workflows.answers import Answer, Answers, Unread

TABLE = "columns"
"""The name of the encoder of tables, the only one there is."""


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors of the support and the queries, those that could be read."""

    encoder: str
    support: NDArray[np.float32]
    support_places: NDArray[np.int64]
    queries: NDArray[np.float32]
    query_places: NDArray[np.int64]
    unreadable: tuple[Unread, ...] = ()
    num_cached: int = 0
    notes: tuple[str, ...] = ()


def predict_files(
    support: LabelledItems,
    queries: Items,
    *,
    encoder: str | None = None,
    joint: bool = False,
    coverage: float = 0.9,
    top: int = 3,
    cache: FeatureCache | None = None,
    device: str = "auto",
    on_progress: Callable[[int], None] | None = None,
) -> Answers:
    """Answer all queries that can be read from all examples that can be read.

    Without `encoder` the modality's default is used. With `joint`, queries are answered together
    and see each other. `on_progress` is told how many of all examples and queries are encoded.
    """
    require(0 < coverage < 1, "coverage", got=coverage, allowed="a number between 0 and 1")
    require(top >= 1, "top", got=top, allowed="1 or more")
    vectors = _encode(support, queries, encoder, cache, device, on_progress)
    labels = [support.labels[place] for place in vectors.support_places]
    _check_classes(support, labels)
    classifier = TailClassifier(
        visibility="joint" if joint else "isolated", device=device, random_state=0
    ).fit(vectors.support, labels)
    answers = _ask(classifier, vectors.queries, coverage, top) if len(vectors.queries) else []
    places = vectors.query_places.tolist()
    return Answers(
        answers=tuple(
            Answer(place=place, name=queries.names[place], **answer)
            for place, answer in zip(places, answers, strict=True)
        ),
        unreadable=vectors.unreadable,
        repeated=_repeated(queries, vectors),
        modality=support.modality,
        encoder=vectors.encoder,
        examples=dict(sorted(Counter(labels).items())),
        coverage=coverage,
        joint=joint,
        num_cached=vectors.num_cached,
        notes=vectors.notes,
    )


def _encode(
    support: LabelledItems,
    queries: Items,
    encoder: str | None,
    cache: FeatureCache | None,
    device: str,
    on_progress: Callable[[int], None] | None,
) -> Vectors:
    if queries.modality is not support.modality:
        raise InvalidSource(
            "queries are of another kind than the examples",
            got=queries.modality,
            allowed=f"{support.modality}",
        )
    if support.modality is Modality.TABLE:
        vectors = _encode_rows(support, queries, encoder)
        if on_progress is not None:
            on_progress(len(support) + len(queries))
        return vectors
    name = encoder or default_encoder(support.modality)
    made = make_encoder(name, support.modality, device=device)
    # Together, so that an item that is in both is encoded once, and batches are full.
    found = encode_items(
        made, [*support.items, *queries.items], cache=cache, on_progress=on_progress
    )
    num_support = len(support)
    split = int(np.searchsorted(found.kept, num_support))
    names = [*support.names, *queries.names]
    return Vectors(
        encoder=made.name,
        support=found.features[:split],
        support_places=found.kept[:split],
        queries=found.features[split:],
        query_places=found.kept[split:] - num_support,
        unreadable=tuple(
            Unread(
                "support" if failure.place < num_support else "queries",
                names[failure.place],
                failure.reason,
            )
            for failure in found.unreadable
        ),
        num_cached=found.num_cached,
    )


def _encode_rows(support: LabelledItems, queries: Items, encoder: str | None) -> Vectors:
    """Encode rows of tables; what is learned about columns comes from the support alone."""
    if encoder not in (None, TABLE):
        raise UnknownEncoder(
            "tables have one encoder", got=repr(encoder), allowed=TABLE, remedy="Name none."
        )
    made = TableEncoder().fit(support.items)
    return Vectors(
        TABLE,
        made.transform(support.items),
        np.arange(len(support)),
        made.transform(queries.items),
        np.arange(len(queries)),
        notes=tuple(f"Column {name!r} is not used: {why}" for name, why in made.dropped.items()),
    )


def _check_classes(support: LabelledItems, labels: Sequence[str]) -> None:
    lost = [label for label in support.classes if label not in set(labels)]
    if lost:
        raise InvalidSource(
            "no example of a class can be read",
            got=", ".join(map(repr, lost)),
            allowed="at least one readable example of each class",
            remedy="Mend the files, or remove the class.",
        )


def _ask(
    classifier: TailClassifier, rows: NDArray[np.float32], coverage: float, top: int
) -> list[dict[str, Any]]:
    """Answer each row."""
    probabilities = classifier.predict_proba(rows)
    sets = classifier.predict_set(rows, coverage)
    # Sets follow from isolated answers; the joint answer may be another class, and belongs in.
    sets[np.arange(len(rows)), probabilities.argmax(axis=1)] = True
    order = np.argsort(-probabilities, axis=1, kind="stable")
    novelty = classifier.novelty(rows)
    names = [str(name) for name in classifier.classes_]
    return [
        {
            "label": names[best[0]],
            "probability": float(row[best[0]]),
            "top": tuple((names[index], float(row[index])) for index in best[:top]),
            "members": tuple(names[index] for index in best if members[index]),
            "novelty": float(strange),
        }
        for row, best, members, strange in zip(probabilities, order, sets, novelty, strict=True)
    ]


def _repeated(queries: Items, vectors: Vectors) -> tuple[str, ...]:
    """Name the queries with the vector of an example; items of equal content share theirs."""
    known = {row.tobytes() for row in vectors.support}
    pairs = zip(vectors.query_places.tolist(), vectors.queries, strict=True)
    return tuple(queries.names[place] for place, row in pairs if row.tobytes() in known)
