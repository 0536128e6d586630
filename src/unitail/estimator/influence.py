r"""Explanations: how much each labelled row, or each column, contributes to an answer.

The score that is decomposed is log p(label | x) minus the mean of log p over all classes. The
contributions of rows come from the model (`unitail.relational.influence`). Those of columns come
from random walks: a walk starts at a labelled row b and replaces its columns by those of x, one by
one in random order. The change of the score at a step is the contribution of that column. The
changes of a walk sum to score(x) - score(b), whatever the order. Their mean over walks estimates
Shapley values (Castro, Gómez and Tejada, *Polynomial calculation of the Shapley value based on
sampling*, 2009). Every order is also walked in reverse.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.encoders.tables import TableEncoder
from unitail.errors import CannotSolve, InvalidInput
from unitail.estimator.fitted import Fitted
from unitail.estimator.rows import Rows
from unitail.inputs.input_encoder import InputEncoder, MixedEncoder
from unitail.wording import some

MAX_WALKED = 65_536
"""Largest number of rows with replaced columns whose scores are kept at once."""
MAX_VALUES = 2**22
"""Largest count of numbers in rows that are scored at once: 32 MB."""
Floats = NDArray[np.float64]
Score = Callable[[NDArray[Any], NDArray[np.int64]], Floats]
"""Maps rows (m, d_T) and a class index for each to scores (m,)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Influence:
    """Contributions of labelled rows, or of columns, to the score of each answer."""

    labels: NDArray[Any]
    """The label that each query's score is about, (m,)."""
    score: Floats
    """log p(label) minus the mean of log p over all classes, (m,)."""
    values: Floats
    """Contribution of each labelled row, or column, to the score: (m, n)."""
    names: tuple[str, ...] = ()
    """Column names, if `values` are those of columns."""

    @property
    def base(self) -> Floats:
        """The part of the score that no row or column contributes, (m,)."""
        return np.asarray(self.score - self.values.sum(axis=1))

    @cached_property
    def shares(self) -> Floats:
        """Share of each value in the sum of all positive values, 0 to 1: (m, n)."""
        positive = np.maximum(self.values, 0)
        total = positive.sum(axis=1, keepdims=True)
        return np.asarray(positive / np.where(total > 0, total, 1))

    def top(self, count: int = 3) -> NDArray[np.int64]:
        """Return the places of the largest values, in decreasing order: (m, count)."""
        return np.argsort(-self.values, axis=1, kind="stable")[:, :count]


def row_influence(fitted: Fitted, queries: NDArray[Any], places: NDArray[np.int64]) -> Floats:
    """Return the contribution of each labelled row to the scores of classes (m,): (m, n).

    Rows that were read as one cluster centre share its contribution equally.
    """
    hypothesis, rows = fitted.hypothesis, fitted.rows
    scaled = torch.from_numpy(fitted.scaling(queries)).unsqueeze(0)
    contributions = hypothesis.contributions(scaled, torch.from_numpy(places).unsqueeze(0))
    values: Floats = contributions[0].double().cpu().numpy()
    if len(fitted.kept) < rows.total:
        centre_of = _standing_for(fitted.scaled.repeated(), fitted.kept)
        values = (values / np.bincount(centre_of, minlength=len(fitted.kept)).clip(1))[:, centre_of]
    if rows.counts is None:
        return values
    return np.asarray(np.add.reduceat(values, np.cumsum(rows.counts) - rows.counts, axis=1))


def _standing_for(rows: Rows, kept: Rows) -> NDArray[np.int64]:
    """Return, for each row, the place of itself or its nearest centre in `kept`, (n,)."""
    from sklearn.metrics import pairwise_distances_argmin

    places = np.empty(len(rows), dtype=np.int64)
    for members, kept_members in zip(rows.members(), kept.members(), strict=True):
        nearest = np.arange(len(members))  # all of them were kept
        if len(kept_members) < len(members):
            nearest = pairwise_distances_argmin(rows.features[members], kept.features[kept_members])
        places[members] = kept_members[nearest]
    return places


def column_influence(
    score: Score,
    queries: NDArray[Any],
    places: NDArray[np.int64],
    labelled: NDArray[Any],
    spans: Mapping[str, slice],
    num_walks: int,
    seed: int,
) -> Floats:
    """Return the contribution of each of c columns to the scores of classes (m,): (m, c).

    Walks start at random rows of `labelled` (n, d_T).
    """
    rng = np.random.default_rng(seed)
    half = (num_walks + 1) // 2
    starts = labelled[rng.permutation(np.resize(rng.permutation(len(labelled)), half))]
    orders = [rng.permutation(len(spans)) for _ in starts]
    starts = np.concatenate([starts, starts])[:num_walks].astype(queries.dtype)
    orders = [*orders, *(order[::-1] for order in orders)][:num_walks]
    replaced_at = np.stack(
        [_steps_of_coordinates(order, spans, len(starts[0])) for order in orders]
    )
    size = max(1, MAX_WALKED // (num_walks * (len(spans) + 1)))
    values = []
    for first in range(0, len(queries), size):
        chunk, classes = queries[first : first + size], places[first : first + size]
        steps = (num_walks, len(spans) + 1, len(chunk))
        scores = [
            score(
                np.where(replaced_at[walk] <= step[:, None], chunk[query], starts[walk]),
                classes[query],
            )
            for walk, step, query in _chunks_of_steps(steps, queries.shape[1])
        ]
        gains = np.diff(np.concatenate(scores).reshape(steps), axis=1)  # (walks, columns, m)
        ordered = [gain[np.argsort(order)] for gain, order in zip(gains, orders, strict=True)]
        values.append(np.mean(ordered, axis=0).T)
    return np.concatenate(values)


def _steps_of_coordinates(
    order: NDArray[np.int64], spans: Mapping[str, slice], width: int
) -> NDArray[np.int64]:
    """Return the step of a walk at which each coordinate becomes the query's, (d_T,).

    Coordinates that belong to no column stay those of the start.
    """
    steps = np.full(width, len(spans) + 1)
    for span, rank in zip(spans.values(), np.argsort(order), strict=True):
        steps[span] = np.minimum(steps[span], rank + 1)
    return steps


def _chunks_of_steps(
    counts: tuple[int, int, int], width: int
) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """List (walk, step, query) of all rows of this width, as many at a time as memory can hold."""
    size, total = max(1, MAX_VALUES // width), math.prod(counts)
    for first in range(0, total, size):
        yield np.unravel_index(np.arange(first, min(first + size, total)), counts)


def column_spans(
    inputs: InputEncoder | None, names: NDArray[Any] | None, width: int
) -> dict[str, slice]:
    """Return the coordinates of the vectors that come from each column."""
    if inputs is None:
        named = range(width) if names is None else names
        return {str(name): slice(place, place + 1) for place, name in enumerate(named)}
    if isinstance(inputs, TableEncoder):
        widths = [(column.name, column.width) for column in inputs.columns]
    elif isinstance(inputs, MixedEncoder):
        widths = _part_widths(inputs)
    else:
        raise CannotSolve(
            "only the rows of a table, and vectors, have columns",
            got=f"items for the encoder {inputs.name}",
            allowed="a table, or vectors",
            remedy="Call `influence` for the labelled examples that count.",
        )
    ends = np.cumsum([width for _, width in widths]).tolist()
    return {name: slice(end - width, end) for (name, width), end in zip(widths, ends, strict=True)}


def _part_widths(inputs: MixedEncoder) -> list[tuple[str, int]]:
    """List the columns of a mixed table, and how many coordinates each has."""
    widths: list[tuple[str, int]] = []
    for part in inputs.parts:
        if isinstance(part.encoder, TableEncoder):
            widths += [(column.name, column.width) for column in part.encoder.columns]
        else:
            assert part.column is not None
            assert part.centre is not None, "set when the encoder was fitted"
            widths.append((part.column, len(part.centre)))
    return widths


def class_places(
    classes: NDArray[Any], label: object, log_probabilities: Floats
) -> NDArray[np.int64]:
    """Return a class index per query: of its label, of one label for all, or the most probable."""
    count = len(log_probabilities)
    if label is None:
        return np.asarray(log_probabilities.argmax(axis=1), dtype=np.int64)
    place_of = {name: place for place, name in enumerate(classes.tolist())}
    labels = np.asarray(label)
    wanted = labels.tolist() if labels.ndim else [labels.item()] * count
    fits = labels.ndim < 2 and len(wanted) == count
    unknown = [name for name in wanted if name not in place_of] if fits else []
    if unknown or not fits:
        raise InvalidInput(
            "the label is not one of the classes" if unknown else "there is no label for each row",
            got=repr(unknown[0]) if unknown else f"labels of shape {labels.shape}",
            allowed=f"one of {some(map(repr, classes.tolist()), 5)}, or {count} of them",
            remedy="Name one of `classes_`, or a list with one for each row.",
        )
    return np.array([place_of[name] for name in wanted], dtype=np.int64)


def above_mean(log_probabilities: Floats, places: NDArray[np.int64]) -> Floats:
    """Return the log-probability of one class per row of (m, K), minus the row's mean: (m,)."""
    chosen = np.take_along_axis(log_probabilities, places[:, None], axis=1)[:, 0]
    return np.asarray(chosen - log_probabilities.mean(axis=1))
