"""The data sent to pages, as values that JSON can represent."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.studio.catalogue import Catalogue
from unitail.studio.estimate import Estimated
from unitail.studio.state import Answered, Labels, Places
from unitail.studio.stored_rows import Snapshot
from unitail.studio.vectors import ItemVectors
from unitail.studio.watch import TableState
from unitail.wording import numbered, shown
from unitail.workflows.learning_curve.report import percent

DECIDING = 6
GONE = {
    "file": "gone",
    "text": "no longer in the table",
    "row": "no longer in the table, or not with the same cells",
}
"""What became of labelled items that are missing, by their kind."""
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


def progress(
    catalogue: Catalogue, vectors: ItemVectors, labels: Labels, table: TableState
) -> dict[str, Any]:
    """Describe the encoding progress, and what is unreadable, changed or missing."""
    missing, changed = labels.missing(), _changed(vectors, labels)
    contents = dict(vectors.contents)
    kinds = [catalogue.kind_of(row.item) for row in missing]
    return {
        "done": vectors.progress.done,
        "total": vectors.progress.total,
        "trouble": vectors.progress.trouble,
        "failures": {str(place): why for place, why in dict(vectors.failures).items()},
        "changed": changed,
        "contents": {str(place): contents.get(place) for place in changed},
        "missing_items": [
            {"kind": kind, "text": row.readable} for kind, row in zip(kinds, missing, strict=True)
        ],
        "missing_sentence": "; ".join(
            f"{numbered(count, f'labelled {kind}')} {'is' if count == 1 else 'are'} {GONE[kind]}"
            for kind, count in Counter(kinds).items()
        ),
        "source": _table_sentence(catalogue.source.name, table),
    }


def _changed(vectors: ItemVectors, labels: Labels) -> list[int]:
    """Return the places of files whose content is not that of their label, or the first one read.

    A file that has its old content back is not among them, whatever its time.
    """
    contents, first = dict(vectors.contents), vectors.first_contents
    differs = {place for place, content in contents.items() if content != first.get(place)}
    for place, row in labels.rows().items():
        if row.class_id is not None and row.content and place in contents:
            differs |= {place} if contents[place] != row.content else set()
    return sorted(differs)


def _table_sentence(name: str, state: TableState) -> str:
    """Return what has become of a table, and what to do; empty if it is as it was read."""
    match state:
        case TableState.CHANGED:
            return (
                f"{shown(name)} has changed since the studio was opened: open the studio again"
                " to see its new rows. Labels are kept."
            )
        case TableState.GONE | TableState.UNREADABLE:
            fate = "is gone" if state is TableState.GONE else "cannot be read"
            return f"{shown(name)} {fate}; what is shown here was read before. Labels are kept."
        case _:
            return ""


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
    place: int, labels: Labels, vectors: ItemVectors, shares: Mapping[int, float]
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
