"""The data sent to pages, as values that JSON can represent."""

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
from unitail.workflows.learning_curve.report import percent

DECIDING = 6
DIGITS = 4


def changes(catalogue: Catalogue, snapshot: Snapshot) -> dict[str, Any]:
    """Describe changed classes and labels; a label is a list of place, class and version."""
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
    """Describe new items: the first of their places, and their names."""
    return {"first": places.start, "names": catalogue.items.names[places.start : places.stop]}


def answers(answered: Answered) -> dict[str, Any]:
    """Describe answers: one list per property."""
    content = {
        "places": answered.places.tolist(),
        "best": answered.class_ids[:, 0].tolist(),
        "second": answered.class_ids[:, 1].tolist(),
        "p": np.round(answered.probabilities[:, 0], DIGITS).tolist(),
        "p2": np.round(answered.probabilities[:, 1], DIGITS).tolist(),
    }
    if answered.novelty is not None:
        content["novelty"] = np.round(answered.novelty, DIGITS).tolist()
    return content


def novelty(places: Places, values: NDArray[np.float64]) -> dict[str, Any]:
    """Describe the novelty of items."""
    return {"places": places.tolist(), "novelty": np.round(values, DIGITS).tolist()}


def progress(vectors: Vectors, labels: Labels, changed: Collection[int]) -> dict[str, Any]:
    """Describe the encoding progress, and the files that are unreadable, changed or missing.

    Files whose content differs from when they were labelled count as changed, too.
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


def estimated(estimate: Estimated | None) -> dict[str, Any] | None:
    """Describe the estimated accuracy; None if there is no estimate."""
    if estimate is None:
        return None
    return {
        "sentence": estimate.sentence,
        "short": percent(estimate.now),
        "labels": estimate.labels,
        "confirmed": estimate.confirmed,
        "now": asdict(estimate.now),
        "later": asdict(estimate.later),
        "curve": [
            [round(shots, 2), each.mean, each.low, each.high] for shots, each in estimate.curve
        ],
        "suspicious": [list(each) for each in estimate.suspicious],
    }


def deciding(
    place: int, labels: Labels, vectors: Vectors, shares: Mapping[int, float]
) -> list[dict[str, Any]]:
    """Describe the labelled items that decided the answer to an item, the most important first.

    `shares` are their shares in the answer; if it is empty, the most similar items are returned.
    """
    encoded = set(vectors.encoded_places().tolist())
    support = zip(*labels.labelled().support, strict=True)
    pairs = [pair for pair in support if pair[0] in encoded and pair[0] != place]
    if place not in encoded or not pairs:
        return []
    rows = vectors.at(np.array([place, *(each for each, _ in pairs)])).astype(np.float64)
    rows -= rows[1:].mean(axis=0) if len(pairs) > 1 else 0
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    cosines = rows[1:] @ rows[0]
    share_of = np.array([shares.get(each, 0.0) for each, _ in pairs])
    return [
        {
            "place": pairs[index][0],
            "class_id": pairs[index][1],
            "cosine": round(float(cosines[index]), 3),
            "share": round(float(share_of[index]), 3) if shares else None,
        }
        for index in np.lexsort((-cosines, -share_of))[:DECIDING]
    ]
