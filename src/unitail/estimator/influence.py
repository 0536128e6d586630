r"""Why an answer is as it is: what each labelled row, or each column, adds to it.

What is taken apart is a score, log p(label | x) less the mean of log p over all classes. Rows are
the model's matter (`unitail.relational.influence`). Columns are exchanged: a walk starts at a
labelled row b and puts in the columns of x one after the other, in random order; what the score
gains at its step is what a column adds. The gains of a walk sum to score(x) - score(b), whatever
the order. The mean over walks estimates Shapley's values (Castro, Gómez and Tejada, *Polynomial
calculation of the Shapley value based on sampling*, 2009); every order is walked backwards too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.encoders.tables import TableEncoder
from unitail.errors import CannotSolve, InvalidInput
from unitail.estimator.fitted import Fitted
from unitail.estimator.support_size import standing_for
from unitail.inputs.input_encoder import InputEncoder, MixedEncoder
from unitail.wording import some

MAX_WALKED = 65_536
"""Rows that are made of exchanged columns at once."""
Floats = NDArray[np.float64]
Score = Callable[[NDArray[Any], NDArray[np.int64]], Floats]
"""From rows (m, d_T) and a class for each to scores (m,)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Influence:
    """What was added to each answer, and by what; all of it together is `score`."""

    labels: NDArray[Any]
    """The class of each query that is spoken of, (m,)."""
    score: Floats
    """log p(label) less the mean of log p over all classes, (m,)."""
    values: Floats
    """What each labelled row, or column, adds to it: (m, n)."""
    names: tuple[str, ...] = ()
    """Of the columns, if it is about columns."""

    @property
    def base(self) -> Floats:
        """What is left of the score, and nobody's, (m,)."""
        return np.asarray(self.score - self.values.sum(axis=1))

    @cached_property
    def shares(self) -> Floats:
        """The share of each in all that speaks for the label, 0 to 1: (m, n)."""
        speaking = np.maximum(self.values, 0)
        total = speaking.sum(axis=1, keepdims=True)
        return np.asarray(speaking / np.where(total > 0, total, 1))

    def top(self, count: int = 3) -> NDArray[np.int64]:
        """Return the places of those that add most, the first first: (m, count)."""
        return np.argsort(-self.values, axis=1, kind="stable")[:, :count]


def row_influence(fitted: Fitted, queries: NDArray[Any], places: NDArray[np.int64]) -> Floats:
    """Say what each labelled row adds to the scores of classes (m,): (m, n).

    Where a centre was read in place of several rows, these share alike in what it adds.
    """
    hypothesis, rows = fitted.hypothesis, fitted.rows
    asked = torch.from_numpy(fitted.scaling(queries)).unsqueeze(0)
    values = hypothesis.contributions(asked, torch.from_numpy(places).unsqueeze(0))
    read: Floats = values[0].double().cpu().numpy()
    if len(fitted.kept) < rows.total:
        stands = standing_for(fitted.scaled.repeated(), fitted.kept)
        read = (read / np.bincount(stands, minlength=len(fitted.kept)).clip(1))[:, stands]
    if rows.counts is None:
        return read
    return np.asarray(np.add.reduceat(read, np.cumsum(rows.counts) - rows.counts, axis=1))


def column_influence(
    score: Score,
    queries: NDArray[Any],
    places: NDArray[np.int64],
    known: NDArray[Any],
    spans: Mapping[str, slice],
    walks: int,
    seed: int,
) -> Floats:
    """Say what each column adds to the scores of classes (m,), by walks from known rows: (m, c)."""
    rng = np.random.default_rng(seed)
    starts = known[rng.permutation(np.resize(rng.permutation(len(known)), (walks + 1) // 2))]
    orders = [rng.permutation(len(spans)) for _ in starts]
    ways = [(start, order) for start, order in zip(starts, orders, strict=True)]
    ways += [(start, order[::-1]) for start, order in ways]
    ways = ways[:walks]
    each = max(1, MAX_WALKED // (walks * (len(spans) + 1)))
    values = []
    for first in range(0, len(queries), each):
        asked, classes = queries[first : first + each], places[first : first + each]
        rows = np.stack([_walk(asked, *way, list(spans.values())) for way in ways])
        steps = rows.shape[:3]  # (walks, columns + 1, m)
        scores = score(rows.reshape(-1, rows.shape[-1]), np.tile(classes, steps[0] * steps[1]))
        gains = np.diff(scores.reshape(steps), axis=1)  # (walks, columns, m)
        ordered = [gain[np.argsort(order)] for gain, (_, order) in zip(gains, ways, strict=True)]
        values.append(np.mean(ordered, axis=0).T)
    return np.concatenate(values)


def _walk(
    queries: NDArray[Any], start: NDArray[Any], order: NDArray[np.int64], spans: list[slice]
) -> NDArray[Any]:
    """Put in the columns of queries (m, d_T) one after the other: (columns + 1, m, d_T)."""
    rows = np.broadcast_to(start.astype(queries.dtype), queries.shape).copy()
    walked = [rows.copy()]
    for column in order:
        rows[:, spans[column]] = queries[:, spans[column]]
        walked.append(rows.copy())
    return np.stack(walked)


def column_spans(
    inputs: InputEncoder | None, names: NDArray[Any] | None, width: int
) -> dict[str, slice]:
    """Return which coordinates of vectors come from which column."""
    if inputs is None:
        named = range(width) if names is None else names
        return {str(name): slice(place, place + 1) for place, name in enumerate(named)}
    if isinstance(inputs, TableEncoder):
        widths = [(column.name, column.width) for column in inputs.columns]
    elif isinstance(inputs, MixedEncoder):
        widths = _part_widths(inputs)
    else:
        raise CannotSolve(
            "items other than the rows of a table have no columns",
            got=f"items for the encoder {inputs.name}",
            allowed="a table, or vectors",
            remedy="Ask `influence` for the labelled examples that count.",
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
            assert part.centre is not None, "fitted encoders have seen vectors"
            widths.append((part.column, len(part.centre)))
    return widths


def class_places(
    classes: NDArray[Any], label: object, log_probabilities: Floats
) -> NDArray[np.int64]:
    """Return the class of each query: the most probable, the one that is named, or one for each."""
    count = len(log_probabilities)
    if label is None:
        return np.asarray(log_probabilities.argmax(axis=1), dtype=np.int64)
    known = {each: place for place, each in enumerate(classes.tolist())}
    given = np.asarray(label)
    wanted = given.tolist() if given.ndim else [given.item()] * count
    shaped = given.ndim < 2 and len(wanted) == count
    unknown = [each for each in wanted if each not in known] if shaped else []
    if unknown or not shaped:
        raise InvalidInput(
            "the label is none of the classes" if unknown else "there is no label for each row",
            got=repr(unknown[0]) if unknown else f"labels of shape {given.shape}",
            allowed=f"one of {some(map(repr, classes.tolist()), 5)}, or {count} of them",
            remedy="Name one of `classes_`, or a list with one for each row.",
        )
    return np.array([known[each] for each in wanted], dtype=np.int64)


def above_mean(log_probabilities: Floats, places: NDArray[np.int64]) -> Floats:
    """Return log-probabilities (m, K) of one class each, less the mean of all: (m,)."""
    own = np.take_along_axis(log_probabilities, places[:, None], axis=1)[:, 0]
    return np.asarray(own - log_probabilities.mean(axis=1))
