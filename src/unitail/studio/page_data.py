"""What pages are told, as JSON can say it."""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.studio.catalogue import Catalogue
from unitail.studio.changes import Snapshot
from unitail.studio.estimate import Estimated
from unitail.studio.latest import Answered, Labels, Places
from unitail.studio.vectors import Vectors

DECIDING = 6
DIGITS = 4


def changes(catalogue: Catalogue, snapshot: Snapshot) -> dict[str, Any]:
    """Tell of labels and classes; a label is a place, a class and a version."""
    places = catalogue.places
    return {
        "revision": snapshot.revision,
        "classes": [asdict(row) for row in snapshot.classes],
        "labels": [
            [places[row.item], row.class_id, row.version]
            for row in snapshot.labels
            if row.item in places
        ],
    }


def new_items(catalogue: Catalogue, places: range) -> dict[str, Any]:
    """Tell of items that are new: where they begin, and their names."""
    return {"first": places.start, "names": catalogue.items.names[places.start : places.stop]}


def answers(answered: Answered) -> dict[str, Any]:
    """Tell of answers, a list for each of their properties."""
    told = {
        "places": answered.places.tolist(),
        "best": answered.class_ids[:, 0].tolist(),
        "second": answered.class_ids[:, 1].tolist(),
        "p": np.round(answered.probabilities[:, 0], DIGITS).tolist(),
        "p2": np.round(answered.probabilities[:, 1], DIGITS).tolist(),
    }
    if answered.novelty is not None:
        told["novelty"] = np.round(answered.novelty, DIGITS).tolist()
    return told


def novelty(places: Places, values: NDArray[np.float64]) -> dict[str, Any]:
    """Tell how novel items are."""
    return {"places": places.tolist(), "novelty": np.round(values, DIGITS).tolist()}


def progress(vectors: Vectors, labels: Labels, changed: Collection[int]) -> dict[str, Any]:
    """Tell how far the encoding is, and of files that are unreadable, changed or gone.

    A file that is not what it was when it was labelled has changed, too.
    """
    contents = dict(vectors.contents)
    since = {
        place
        for place, row in labels.rows().items()
        if row.class_id is not None
        and row.content
        and contents.get(place, row.content) != row.content
    }
    return {
        "done": vectors.progress.done,
        "total": vectors.progress.total,
        "trouble": vectors.progress.trouble,
        "failures": {str(place): why for place, why in dict(vectors.failures).items()},
        "changed": sorted(since | set(changed)),
        "missing": [row.item for row in labels.missing()],
    }


def estimated(told: Estimated | None) -> dict[str, Any] | None:
    """Tell what is known of the accuracy."""
    if told is None:
        return None
    return {
        "sentence": told.sentence,
        "labels": told.labels,
        "now": asdict(told.now),
        "later": asdict(told.later),
        "curve": [[round(shots, 2), each.mean, each.low, each.high] for shots, each in told.curve],
        "suspicious": [list(each) for each in told.suspicious],
    }


def deciding(
    place: int, labels: Labels, vectors: Vectors, shares: Mapping[int, float]
) -> list[dict[str, Any]]:
    """Tell why an item is answered so: by the labelled items that decided it, the first first.

    `shares` are their parts in the answer; where they are not known, the most alike are told.
    """
    known = set(vectors.known().tolist())
    support = zip(*labels.labelled().support, strict=True)
    pairs = [pair for pair in support if pair[0] in known and pair[0] != place]
    if place not in known or not pairs:
        return []
    rows = vectors.at(np.array([place, *(each for each, _ in pairs)])).astype(np.float64)
    rows -= rows[1:].mean(axis=0) if len(pairs) > 1 else 0
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    cosines = rows[1:] @ rows[0]
    parts = np.array([shares.get(each, 0.0) for each, _ in pairs])
    return [
        {
            "place": pairs[each][0],
            "class_id": pairs[each][1],
            "cosine": round(float(cosines[each]), 3),
            "share": round(float(parts[each]), 3) if shares else None,
        }
        for each in np.lexsort((-cosines, -parts))[:DECIDING]
    ]
