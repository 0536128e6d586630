"""Vectors of all items in a basis of the labelled ones: the same answers, from far fewer numbers.

An answer of the relational model depends only on lengths, and on inner products with labelled
vectors, and those of a pool if there is one. n of these span n dimensions, so every vector is
written in a basis of theirs, with the length of what is left as one coordinate more: n + 1
coordinates in place of a thousand. Where the model limits coordinates (`relational/geometry.py`),
it matters which ones vectors are given in: they are limited before, as the model would limit them,
and the model that reads them limits none.

Most of what a fit and its answers take for relations (`relational/relations.py`) depends on vectors
alone: distances, angles, kernels and their inverses. Somebody who corrects a label changes none of
these. So they are kept by the vectors that they belong to, number by number: whatever changes, a
labelled item more or less, a file, a basis, finds nothing here that was kept for others.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from unitail.devices import choose_device
from unitail.estimator.classifier import TailClassifier
from unitail.inputs.input_encoder import InputEncoder, ItemEncoder
from unitail.learners.pretrained import load_default
from unitail.relational.config import FeaturesAs
from unitail.relational.geometry import coordinate_limit, limited
from unitail.relational.model import MAX_ORIGIN_DISTANCE, Relational
from unitail.relational.relations import Among, Ground, Meeting
from unitail.studio.latest import NONE, Places

MAX_KEPT = 2**24
"""Numbers that are kept for the labelled vectors of one moment: 64 MB."""
MAX_SHARE = 0.5
"""Of the width: with more labelled vectors than that, a basis saves too little."""
MAX_LABELLED = 500
"""As many rows as the model reads in pairs, or fewer."""
MIN_LEFT = 1e-2
"""What is left is measured again, without a difference of squares, where its share is less."""
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class KeptGround(Ground):
    """Labelled vectors that remember how those that they met lie to them; threads may share it.

    Nobody changes what is kept, and where there is no more room nothing more is.
    """

    _met: dict[bytes, tuple[Tensor, Meeting]] = field(default_factory=dict)
    """By the first of the vectors: all of them, and how they lie."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def meet(self, features: Tensor) -> Meeting:
        """Compare other vectors (1, m, d_T) with the seen ones, or remember it."""
        if features.device.type != "cpu" or features.shape[1] < 2:
            return super().meet(features)
        key = features[0, 0].numpy().tobytes()
        known = self._met.get(key)
        if known is not None and torch.equal(known[0], features):
            return known[1]
        met = super().meet(features)
        with self._lock:
            self._met.pop(key, None)  # it began alike
            kept = sum(_numbers(*each) for each in self._met.values())
            if kept + _numbers(features, met) <= MAX_KEPT:
                self._met[key] = features, met
        return met


class KeptRelations:
    """Compares labelled vectors as `Among.of` does, and remembers the last."""

    def __init__(self) -> None:
        self._last: tuple[Tensor, tuple[object, ...], Among] | None = None

    def __call__(
        self,
        features: Tensor,
        num_labelled: int,
        fitted: Sequence[float],
        *,
        origin: bool,
        limit: float | None = None,
    ) -> Among:
        """Compare vectors (B, seen, d_T) with each other, or remember it."""
        settings, last = (num_labelled, fitted, origin, limit), self._last
        if last is not None and last[1] == settings and torch.equal(last[0], features):
            return last[2]
        among = Among.of(features, num_labelled, fitted, origin=origin, limit=limit)
        ground = among.ground
        if len(features) == 1:
            among = replace(
                among, ground=KeptGround(ground.geometry, ground.origin, ground.solutions)
            )
        self._last = features, settings, among
        return among


def _numbers(features: Tensor, met: Meeting) -> int:
    return sum(each.numel() for each in (features, met.channels, met.operators, met.kernels))


@dataclass(frozen=True, eq=False)
class Span:
    """How vectors are written in a basis of the labelled ones."""

    limit: torch.Tensor | None
    """How far a coordinate counts, (1, 1, 1); None: there is no end."""
    basis: torch.Tensor
    """(d, r), with orthonormal columns."""

    @classmethod
    def of(cls, labelled: Floats, factor: float | None) -> "Span":
        """Find the basis of labelled vectors (n, d), limited by a factor as the model has it.

        Those of a pool, which are read beside them, count as labelled here. Householder's way to
        the basis keeps what single precision has, copies among the vectors or not.
        """
        ends = coordinate_limit([torch.from_numpy(labelled).double().unsqueeze(0)], factor)
        ends = None if ends is None else ends.float()
        return cls(ends, torch.linalg.qr(_limited(labelled, ends).T).Q)

    def __call__(self, rows: Floats) -> Floats:
        """Return rows (m, r + 1) with the same lengths, and products with the labelled ones."""
        limited_rows = _limited(rows, self.limit)
        inside = limited_rows @ self.basis
        squares = limited_rows.square().sum(dim=1)
        left = squares - inside.square().sum(dim=1)
        near = left < MIN_LEFT * squares  # rounding would be more than what is left
        apart = limited_rows[near] - inside[near] @ self.basis.T
        left[near] = apart.square().sum(dim=1)
        return torch.cat([inside, left.sqrt().unsqueeze(1)], dim=1).numpy()

    def labelled(self, rows: Floats) -> Floats:
        """Write the labelled vectors themselves, of which nothing is left: (n, r + 1)."""
        inside = _limited(rows, self.limit) @ self.basis
        return F.pad(inside, (0, 1)).numpy()


class Spanned:
    """The vectors of items in a span; each is written in it once. Threads may share it.

    Without a span they are as they are, and only how they lie to each other is kept.
    """

    def __init__(self, span: Span | None, key: object) -> None:
        self.span, self.key = span, key
        self.relations = KeptRelations()
        """How they lie to the labelled ones."""
        self._lock = threading.Lock()
        width = 0 if span is None else span.basis.shape[1] + 1
        self._rows = np.empty((0, width), np.float32)
        self._versions = np.empty(0, np.int64)

    def __call__(self, rows: Floats) -> Floats:
        """Write vectors (m, d)."""
        return rows if self.span is None else self.span(rows)

    def labelled(self, rows: Floats) -> Floats:
        """Write the labelled vectors themselves, (n, d)."""
        return rows if self.span is None else self.span.labelled(rows)

    def at(self, places: Places, versions: Places, read: Callable[[Places], Floats]) -> Floats:
        """Return the vectors at some places, written, (m, any); those that are new are read."""
        if self.span is None:
            return read(places)
        with self._lock:
            self._grow(int(places.max(initial=-1)) + 1)
            new = self._versions[places] != versions
        if new.any():
            written = self.span(read(places[new]))
        with self._lock:
            if new.any():
                self._rows[places[new]] = written
                self._versions[places[new]] = versions[new]
            chosen: Floats = self._rows[places]
            return chosen

    def _grow(self, size: int) -> None:
        more = size - len(self._rows)
        if more > 0:
            more = max(more, len(self._rows) // 2)  # items may come one by one, and all are copied
            self._rows = np.pad(self._rows, ((0, more), (0, 0)))
            self._versions = np.pad(self._versions, (0, more), constant_values=NONE)


def spanned(
    encoder: InputEncoder,
    labelled: Floats,
    key: object,
    kept: Sequence[Spanned],
    *,
    pooled: bool = False,
) -> Spanned | None:
    """Return how items are written for these labelled vectors: what is kept of the same key.

    They stay as they are where a basis would save nothing, or change answers. None where nothing
    is kept: tables have steps, weights and parts. With a pool the support is read twice, with the
    pool and alone (`joint_yields`), and coordinates are limited in two ways; a span has one.
    """
    for each in kept:
        if each.key == key:
            return each
    n, width = labelled.shape
    model = load_default()
    if not isinstance(encoder, ItemEncoder) or not isinstance(model, Relational):
        return None
    if model.config.features_as is not FeaturesAs.RELATIONS:
        return None
    if pooled and model.config.joint_yields and model.config.coordinate_limit is not None:
        return None
    if n > MAX_LABELLED:
        return None
    if n + 1 > MAX_SHARE * width or _is_far(labelled):
        return Spanned(None, key)
    return Spanned(Span.of(labelled, model.config.coordinate_limit), key)


class _Shared(Relational):
    """A model with the weights of another that remembers what it compared.

    Classifiers copy the model that they are given, since somebody may go on to train it, and bring
    it to their device and precision, which takes as long as a small fit. Nobody trains this one,
    and it is where it should be.
    """

    def __init__(self, model: Relational, by: Spanned) -> None:
        self.__dict__.update(vars(model))
        self.compare = by.relations
        if by.span is not None:  # vectors were limited before
            self.config = replace(model.config, coordinate_limit=None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def to(self, *_device_and_dtype: Any, **_options: Any) -> Self:  # noqa: ANN401
        """Stay: `sharing` asks for the device and precision that it has."""
        return self

    def train(self, mode: bool = True) -> Self:
        """Stay as it was loaded, to be asked and not trained."""
        assert not mode
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Stay without gradients."""
        assert not requires_grad
        return self


def sharing(classifier: TailClassifier, by: Spanned) -> TailClassifier:
    """Let a classifier of the default model, in single precision, take vectors as they are written.

    It has the weights that all others have, and what it has compared before it may remember.
    """
    model = load_default(choose_device(classifier.device))
    assert isinstance(model, Relational)
    # In another precision it would convert the shared weights.
    classifier.set_params(model=_Shared(model, by), precision="single")
    return classifier


def _is_far(rows: Floats) -> bool:
    """Tell whether the model would move the origin before it limits coordinates."""
    centre = rows.mean(axis=0, dtype=np.float64)
    spread = np.sqrt(np.square(rows - centre).mean())
    return bool(np.sqrt(np.square(centre).mean()) * 2 > MAX_ORIGIN_DISTANCE * spread)


def _limited(rows: Floats, limit: torch.Tensor | None) -> torch.Tensor:
    return limited(torch.from_numpy(rows).unsqueeze(0), limit)[0]
