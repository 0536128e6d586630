"""Notes for the user on items that their vectors show to be special."""

from hashlib import blake2b
from typing import Any

import numpy as np

from unitail.encoders.encoding import Vectors
from unitail.encoders.tables import Numbers, TableEncoder, numbers_of
from unitail.inputs.input_encoder import InputEncoder, ItemEncoder, MixedEncoder
from unitail.inputs.items import LabelledItems
from unitail.wording import numbered, some

MAX_BEYOND = 0.5
"""Columns with a larger share of values outside the examples' range are reported."""


def beyond_examples(encoder: InputEncoder, examples: Any, queries: Any) -> tuple[str, ...]:  # noqa: ANN401
    """Return a note on columns in which most queries lie outside the range of the examples."""
    cells = encoder.cells if isinstance(encoder, MixedEncoder) else encoder
    columns = cells.columns if isinstance(cells, TableEncoder) and len(examples) else ()
    beyond = [
        column.name
        for column in columns
        if isinstance(column, Numbers) and _share_beyond(column, examples, queries) > MAX_BEYOND
    ]
    if not beyond:
        return ()
    return (
        f"Most values of {some(map(repr, beyond))} lie outside the range of the examples, where"
        f" they may mislead; to leave a column out: --column {beyond[0]}=skip",
    )


def _share_beyond(column: Numbers, examples: Any, queries: Any) -> float:  # noqa: ANN401
    old, new = (numbers_of(table[column.name], column.kind) for table in (examples, queries))
    new = new[~np.isnan(new)]
    if not len(new) or np.isnan(old).all():
        return 0.0
    return float(((new < np.nanmin(old)) | (new > np.nanmax(old))).mean())


def long_texts(encoder: InputEncoder, *inputs: Any) -> tuple[str, ...]:  # noqa: ANN401 - as in encode
    """Return a note on the number of texts that the encoder truncates, not counting files."""
    limit = encoder.encoder.max_words if isinstance(encoder, ItemEncoder) else None
    if limit is None:
        return ()
    texts = (item for items in inputs for item in items if isinstance(item, str))
    number = sum(len(text.split(maxsplit=limit)) > limit for text in texts)
    return (f"{numbered(number, 'text')} read up to word {limit:,} at most",) if number else ()


def contradictions(support: LabelledItems, vectors: Vectors) -> tuple[str, ...]:
    """Return a note on examples that have equal vectors but different labels."""
    groups: dict[bytes, list[int]] = {}
    for place, row in zip(vectors.kept.tolist(), vectors.features, strict=True):
        groups.setdefault(blake2b(row.tobytes(), digest_size=16).digest(), []).append(place)
    labels = support.labels
    conflicts = [group for group in groups.values() if len({labels[place] for place in group}) > 1]
    listed_conflicts = some(
        (
            " = ".join(f"{support.names[place]} ({labels[place]})" for place in group)
            for group in conflicts
        ),
        3,
        separator="; ",
    )
    return (f"Equal examples with different labels: {listed_conflicts}",) if conflicts else ()
