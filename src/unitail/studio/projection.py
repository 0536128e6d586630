"""Projects vectors onto the span of the labelled ones: the same answers from far fewer numbers.

An answer of the relational model depends only on lengths, and on inner products with the labelled
vectors and with those of the pool, if there is one. n such vectors span n dimensions. So each
vector is written in an orthonormal basis of this span, with the length of its remainder as one more
coordinate: n + 1 coordinates instead of a thousand. Where the model limits coordinates
(`relational/geometry.py`), the basis would matter: vectors are limited before the projection, as
the model would limit them, and the model that reads them limits none.

Most of the relations that a fit and its answers use (`relational/relations.py`) depend on vectors
alone: distances, angles, kernels and their inverses. Correcting a label changes none of them, so
they are cached. The keys are the vectors themselves, compared number by number: whatever changes
(the labelled items, a file, the basis), a cached relation is never used for other vectors.
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

from unitail.estimator.classifier import TailClassifier
from unitail.inputs.input_encoder import InputEncoder, ItemEncoder
from unitail.learners.pretrained import load_default
from unitail.processes import choose_device
from unitail.relational.geometry import GeometrySettings, coordinate_limit, limited
from unitail.relational.model import MAX_ORIGIN_DISTANCE, Relational
from unitail.relational.relations import LabelFreeFit, LabelFreeRelations, ReferenceVectors
from unitail.studio.state import NONE, Places

MAX_KEPT = 2**24
"""Numbers cached for one set of labelled vectors: 64 MB."""
MAX_SHARE = 0.5
"""Share of the width: with more labelled vectors than that, a basis saves too little."""
MAX_LABELLED = 500
"""Largest number of labelled vectors; at most the number that the model compares in pairs."""
MIN_LEFT = 1e-2
"""Share of a remainder below which its length is computed again without cancellation."""
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class CachedReference(ReferenceVectors):
    """Labelled vectors that cache their relations to other vectors; threads may share it.

    Cached relations are never modified, and nothing is added once the cache is full.
    """

    _cache: dict[bytes, tuple[Tensor, LabelFreeRelations]] = field(default_factory=dict)
    """Other vectors and their relations, by the bytes of the first vector."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def relate(self, features: Tensor) -> LabelFreeRelations:
        """Compare other vectors (1, m, d_T) with the labelled ones, or return the cached result."""
        if features.device.type != "cpu" or features.shape[1] < 2:
            return super().relate(features)
        key = features[0, 0].numpy().tobytes()
        entry = self._cache.get(key)
        if entry is not None and torch.equal(entry[0], features):
            return entry[1]
        relations = super().relate(features)
        with self._lock:
            self._cache.pop(key, None)  # other vectors with the same first row
            size = sum(_numbers(*each) for each in self._cache.values())
            if size + _numbers(features, relations) <= MAX_KEPT:
                self._cache[key] = features, relations
        return relations


class CachedRelations:
    """Compares labelled vectors as `LabelFreeFit.of` does, and caches the last result."""

    def __init__(self) -> None:
        self._last: tuple[Tensor, tuple[object, ...], LabelFreeFit] | None = None

    def __call__(
        self,
        features: Tensor,
        num_labelled: int,
        penalties: Sequence[float],
        settings: GeometrySettings,
    ) -> LabelFreeFit:
        """Compare vectors (B, seen, d_T) with each other, or return the cached result."""
        given, last = (num_labelled, penalties, settings), self._last
        if last is not None and last[1] == given and torch.equal(last[0], features):
            return last[2]
        among = LabelFreeFit.of(features, num_labelled, penalties, settings)
        reference = among.reference
        if len(features) == 1:
            among = replace(
                among,
                reference=CachedReference(reference.geometry, reference.solutions),
            )
        self._last = features, given, among
        return among


def _numbers(features: Tensor, relations: LabelFreeRelations) -> int:
    tensors = (features, relations.channels, relations.operators, relations.kernels)
    return sum(each.numel() for each in tensors)


@dataclass(frozen=True, eq=False)
class SpanProjection:
    """The projection onto the span of labelled vectors."""

    limit: torch.Tensor | None
    """Limit of the coordinates, (1, 1, 1); None if they are not limited."""
    basis: torch.Tensor
    """Basis of the span, (d, r), with orthonormal columns."""

    @classmethod
    def of(cls, labelled: Floats, factor: float | None) -> "SpanProjection":
        """Return the span of labelled vectors (n, d), limited by the model's factor.

        Vectors of a pool, which are read beside them, count as labelled here. A QR decomposition by
        Householder reflections is accurate in single precision even with duplicate vectors.
        """
        limit = coordinate_limit([torch.from_numpy(labelled).double().unsqueeze(0)], factor)
        limit = None if limit is None else limit.float()
        return cls(limit, torch.linalg.qr(_limited(labelled, limit).T).Q)

    def __call__(self, rows: Floats) -> Floats:
        """Project rows (m, d) to (m, r + 1): the same lengths and products with labelled rows."""
        limited_rows = _limited(rows, self.limit)
        inside = limited_rows @ self.basis
        squares = limited_rows.square().sum(dim=1)
        remainders = squares - inside.square().sum(dim=1)
        is_small = remainders < MIN_LEFT * squares  # rounding errors would exceed the difference
        outside = limited_rows[is_small] - inside[is_small] @ self.basis.T
        remainders[is_small] = outside.square().sum(dim=1)
        return torch.cat([inside, remainders.sqrt().unsqueeze(1)], dim=1).numpy()

    def labelled(self, rows: Floats) -> Floats:
        """Project the labelled vectors themselves, whose remainder is zero: (n, r + 1)."""
        inside = _limited(rows, self.limit) @ self.basis
        return F.pad(inside, (0, 1)).numpy()


class ProjectionCache:
    """Projects each vector onto a span once, and caches it; threads may share it.

    Without a projection, vectors stay unchanged, and only their relations are cached.
    """

    def __init__(self, projection: SpanProjection | None, key: object) -> None:
        self.projection, self.key = projection, key
        self.relations = CachedRelations()
        """Cached relations to the labelled vectors."""
        self._lock = threading.Lock()
        width = 0 if projection is None else projection.basis.shape[1] + 1
        self._rows = np.empty((0, width), np.float32)
        self._versions = np.empty(0, np.int64)

    def __call__(self, rows: Floats) -> Floats:
        """Project vectors (m, d)."""
        return rows if self.projection is None else self.projection(rows)

    def labelled(self, rows: Floats) -> Floats:
        """Project the labelled vectors themselves, (n, d)."""
        return rows if self.projection is None else self.projection.labelled(rows)

    def at(self, places: Places, versions: Places, read: Callable[[Places], Floats]) -> Floats:
        """Return the projected vectors at some places, (m, any); `read` gets those not cached."""
        if self.projection is None:
            return read(places)
        with self._lock:
            self._grow(int(places.max(initial=-1)) + 1)
            is_new = self._versions[places] != versions
        if is_new.any():
            projected = self.projection(read(places[is_new]))
        with self._lock:
            if is_new.any():
                self._rows[places[is_new]] = projected
                self._versions[places[is_new]] = versions[is_new]
            chosen: Floats = self._rows[places]
            return chosen

    def _grow(self, size: int) -> None:
        more = size - len(self._rows)
        if more > 0:
            more = max(more, len(self._rows) // 2)  # items may come one by one: copy rarely
            self._rows = np.pad(self._rows, ((0, more), (0, 0)))
            self._versions = np.pad(self._versions, (0, more), constant_values=NONE)


def choose_projection(
    encoder: InputEncoder,
    labelled: Floats,
    key: object,
    caches: Sequence[ProjectionCache],
    *,
    pooled: bool = False,
) -> ProjectionCache | None:
    """Return the cache for these labelled vectors: an existing one of the same key, or a new one.

    It has no projection where a basis would save nothing or change answers. None where nothing can
    be cached: tables have preprocessing steps, weights and parts; and with a pool the support is
    read twice, with the pool and alone (`joint_yields`), with two limits of the coordinates where a
    projection has one.
    """
    for cache in caches:
        if cache.key == key:
            return cache
    n, width = labelled.shape
    model = load_default()
    if not isinstance(encoder, ItemEncoder) or not isinstance(model, Relational):
        return None
    if pooled and model.config.joint_yields and model.config.coordinate_limit is not None:
        return None
    if n > MAX_LABELLED:
        return None
    if n + 1 > MAX_SHARE * width or _would_move_origin(labelled):
        return ProjectionCache(None, key)
    return ProjectionCache(SpanProjection.of(labelled, model.config.coordinate_limit), key)


class _SharedModel(Relational):
    """A model that shares the weights of another one, and caches relations.

    Classifiers copy the model they are given, since its owner may go on training it, and move it to
    their device and precision, which takes as long as a small fit. This model is never trained, and
    already is where it should be, so it refuses to be copied or moved.
    """

    def __init__(self, model: Relational, cache: ProjectionCache) -> None:
        self.__dict__.update(vars(model))
        self.compare = cache.relations
        if cache.projection is not None:  # vectors are limited before the projection
            self.config = replace(model.config, coordinate_limit=None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def to(self, *_device_and_dtype: Any, **_options: Any) -> Self:  # noqa: ANN401
        """Return itself: `with_shared_model` asks only for the device and precision it has."""
        return self

    def train(self, mode: bool = True) -> Self:
        """Return itself, in evaluation mode."""
        assert not mode
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Return itself, without gradients."""
        assert not requires_grad
        return self


def with_shared_model(classifier: TailClassifier, cache: ProjectionCache) -> TailClassifier:
    """Give a classifier the default model in single precision, for vectors of a cache.

    The model shares its weights with all other such classifiers, and uses the cached relations.
    """
    model = load_default(choose_device(classifier.device))
    assert isinstance(model, Relational)
    # Another precision would convert the shared weights.
    classifier.set_params(model=_SharedModel(model, cache), precision="single")
    return classifier


def _would_move_origin(rows: Floats) -> bool:
    """Return whether the model would move the origin before it limits coordinates."""
    centre = rows.mean(axis=0, dtype=np.float64)
    spread = np.sqrt(np.square(rows - centre).mean())
    return bool(np.sqrt(np.square(centre).mean()) * 2 > MAX_ORIGIN_DISTANCE * spread)


def _limited(rows: Floats, limit: torch.Tensor | None) -> torch.Tensor:
    return limited(torch.from_numpy(rows).unsqueeze(0), limit)[0]
