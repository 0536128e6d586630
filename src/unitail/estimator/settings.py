"""The classifier's parameters, validated and resolved once, in `Settings.of`."""

import copy
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from torch import Tensor

from unitail.errors import InvalidConfig, WeightWarning, require, warn_user
from unitail.estimator.scaling import Scales, read_scale, scale_after
from unitail.inputs.input_encoder import InputEncoder, MixedEncoder
from unitail.learners.checkpoint import load_model
from unitail.learners.class_shares import prior_offsets
from unitail.learners.in_context import InContextLearner
from unitail.learners.parts import AnyLearner, PartsLearner, checked_parts
from unitail.learners.pretrained import SHIPPED_DRAWS, load_shipped
from unitail.nn.episode_model import AnyModel, EpisodeModel, Visibility
from unitail.processes import choose_device
from unitail.wording import some

Floats = NDArray[np.float64]
AUTO = "auto"
"""Visibility: the model's own."""
BALANCED = "balanced"
"""Class shares or weights under which all classes count the same."""
MAX_DOUBLE = 256
"""Largest number of rows that are read in double precision by default."""
MAX_SUPPORT = 4000
"""Default of `max_support`; also the least limit on the number of queries of a joint call."""
TOLERANCE = 1e-6
"""Largest allowed difference between the sum of class shares and one."""


class Precision(StrEnum):
    """The dtype of the computation."""

    AUTO = "auto"
    """Double for small supports, where it costs little, single for larger ones."""
    SINGLE = "single"
    DOUBLE = "double"

    def dtype(self, num_rows: int) -> torch.dtype:
        """Choose by the rows read; the number of queries must not affect their answers."""
        small = num_rows <= MAX_DOUBLE
        double = self is Precision.DOUBLE or (self is Precision.AUTO and small)
        return torch.float64 if double else torch.float32


class Parameters(Protocol):
    """The parameters that the classifier's constructor stores."""

    model: Any
    visibility: Any
    class_shares: Any
    n_draws: Any
    device: Any
    chunk_size: Any
    max_support: Any
    precision: Any
    scale: Any
    parts: Any
    class_prior: Any
    class_weight: Any


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """How supports are read and queries answered."""

    model: AnyModel | str
    """A copy of the user's model, who may go on to train it, or the name of a shipped one."""
    device: torch.device
    precision: Precision
    visibility: Visibility
    class_shares: Floats | None = None
    """How often each class occurs among the queries of one call, if that is known, (K,)."""
    num_draws: int
    seed: int
    chunk_size: int | None
    max_support: int | None
    scale: Scales
    parts: tuple[int, ...] | None
    """Number of columns of each part that is classified on its own."""
    class_prior: Floats | None = None
    """How often each class occurs among the queries, if that differs from the support, (K,)."""
    class_weight: Floats | None = None
    """Factors on the class probabilities, (K,)."""

    @classmethod
    def of(
        cls,
        parameters: Parameters,
        seed: int,
        classes: Sequence[Any] | None = None,
        inputs: InputEncoder | None = None,
    ) -> "Settings":
        """Validate the parameters; load the model if it is given as a folder, otherwise copy it.

        Without `classes`, what the parameters say about classes is left out. `scale` is what
        remains to be done after the encoder `inputs`.
        """
        device = _choose_device(parameters.device)
        model = _choose_model(parameters.model, device)
        loaded = load_shipped(model) if isinstance(model, str) else model
        visibility = _choose_visibility(parameters.visibility, loaded)
        chunk_size = _optional_count(parameters.chunk_size, "chunk_size")
        if chunk_size is not None and not visibility.isolates_queries:
            raise InvalidConfig(
                "rows that see each other cannot be answered in chunks",
                got=f"chunk_size={chunk_size} with visibility='{visibility}'",
                allowed="chunk_size=None, or visibility='isolated'",
            )
        if parameters.class_shares is not None and visibility.isolates_queries:
            raise InvalidConfig(
                "known class shares tie the answers to rows together",
                got=f"class_shares with visibility='{visibility}'",
                allowed="class_shares=None, or visibility='joint'",
            )
        _check_one_class_weighting(parameters)
        num_draws = _optional_count(parameters.n_draws, "n_draws")
        parts = None if parameters.parts is None else checked_parts(parameters.parts)
        scale = read_scale(parameters.scale, parts)
        if parts is None and isinstance(inputs, MixedEncoder):
            parts = inputs.widths
        settings = cls(
            model=model,
            device=device,
            precision=_choose_precision(parameters.precision),
            visibility=visibility,
            num_draws=num_draws or (SHIPPED_DRAWS[model] if isinstance(model, str) else 1),
            seed=seed,
            chunk_size=chunk_size,
            max_support=_optional_count(parameters.max_support, "max_support"),
            scale=scale_after(scale, inputs, parts),
            parts=parts,
        )
        return settings if classes is None else settings.for_classes(parameters, classes)

    def for_classes(self, parameters: Parameters, classes: Sequence[Any]) -> "Settings":
        """Return the same settings with what the parameters say about these classes."""
        ways, prior, weights = len(classes), parameters.class_prior, parameters.class_weight
        if isinstance(weights, str) and weights == BALANCED:
            # The balanced prior is the same: n / (K n_k) is 1 / K divided by the share of class k.
            prior, weights = BALANCED, None
        return replace(
            self,
            class_shares=_read_shares(parameters.class_shares, ways, "class_shares"),
            class_prior=_read_shares(prior, ways, "class_prior"),
            class_weight=_read_weights(weights, classes),
        )

    @property
    def given_model(self) -> AnyModel:
        """The model as it was given: to look up what it can do, not to predict with."""
        return load_shipped(self.model) if isinstance(self.model, str) else self.model

    def learner(self, num_rows: int, widths: tuple[int, ...] | None = None) -> AnyLearner:
        """Return the learner for this number of rows, and for parts of these widths."""
        dtype = self.precision.dtype(num_rows)
        if isinstance(self.model, str):
            model = load_shipped(self.model, self.device, dtype)
        else:
            model = _converted(self.model, dtype)
        learner = InContextLearner(
            model,
            num_draws=self.num_draws,
            seed=self.seed,
            chunk_size=self.chunk_size,
            visibility=self.visibility,
        )
        return PartsLearner(learner, widths or self.parts) if self.parts else learner

    def offsets(
        self, class_indices: NDArray[np.int64], shares: Floats | None = None
    ) -> Tensor | None:
        """Return the offsets (B, K) to log-probabilities for supports (B, n), by prior and weights.

        `shares` (K,) are the class shares among all rows, if the support is a reduction of them;
        they are the prior unless the user gave one.
        """
        prior = shares if self.class_prior is None else self.class_prior
        restored = None if prior is None else prior_offsets(class_indices, torch.from_numpy(prior))
        if self.class_weight is None:
            return restored
        weighted = torch.from_numpy(self.class_weight).log().expand(len(class_indices), -1)
        return weighted if restored is None else weighted + restored


_CONVERTED: WeakKeyDictionary[AnyModel, dict[torch.dtype, AnyModel]] = WeakKeyDictionary()
"""Models of `Settings` in other dtypes than their own; as long as the models themselves live."""


def _converted(model: AnyModel, dtype: torch.dtype) -> AnyModel:
    """Return a frozen model in a dtype; converted once."""
    if next(model.parameters()).dtype == dtype:
        return model
    converted = _CONVERTED.setdefault(model, {})
    if dtype not in converted:
        converted[dtype] = copy.deepcopy(model).to(dtype)
    return converted[dtype]


def _read_weights(given: Any, classes: Sequence[Any]) -> Floats | None:  # noqa: ANN401
    """Return the weight of each class (K,) from the user's weights by label; the default is 1.

    A label that no row has is reported and ignored: a class may lose its rows, or get them later.
    """
    if given is None:
        return None
    named = dict(given) if isinstance(given, Mapping) else {None: 0.0}
    for weight in named.values():
        number = weight if isinstance(weight, int | float | np.number) else 0.0
        require(
            0 < float(number) < np.inf,
            "class_weight",
            got=repr(given),
            allowed=f"None, '{BALANCED}', or numbers above 0 by label, of {some(classes, 5)}",
        )
    absent = set(named).difference(classes)
    if absent:
        labels = some(sorted(map(repr, absent)), 5)
        warn_user(f"class_weight names {labels}, which no row has.", WeightWarning)
    return np.array([float(named.get(label, 1.0)) for label in classes])


def _read_shares(given: str | ArrayLike | None, ways: int, name: str) -> Floats | None:
    """Return the share of each class (K,) from what the user gave."""
    if given is None:
        return None
    if isinstance(given, str) and given == BALANCED:
        return np.full(ways, 1 / ways)
    try:
        shares = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        shares = np.empty(0)
    require(
        shares.shape == (ways,) and bool((shares > 0).all()) and abs(shares.sum() - 1) < TOLERANCE,
        name,
        got=given,
        allowed=f"None, '{BALANCED}', or {ways} numbers above 0 that add up to 1",
    )
    return shares


def draw_seed(random_state: Any) -> int:  # noqa: ANN401 - as scikit-learn takes it
    """Draw the seed of one fit."""
    # randint, since a RandomState may be shared and has to advance
    return int(check_random_state(random_state).randint(2**31 - 1))


def _choose_device(name: object) -> torch.device:
    """Return the device called `name`; refuse those without double precision."""
    device = choose_device(name)
    if device.type == "mps":
        raise InvalidConfig(
            "the device computes in single precision only",
            got=repr(str(device)),
            allowed="auto, cpu, or another device with double precision",
            remedy="Leave it out; encoders may use it: `make_encoder(name, device='mps')`.",
        )
    return device


def _choose_model(model: object, device: torch.device) -> AnyModel | str:
    """Return a frozen model for the `model` argument, or the name if it is a shipped one."""
    if isinstance(model, str) and model in SHIPPED_DRAWS:
        return model
    if isinstance(model, EpisodeModel):
        return copy.deepcopy(model).to(device).eval().requires_grad_(False)
    if isinstance(model, str | Path):
        return load_model(model).to(device).eval().requires_grad_(False)
    raise InvalidConfig(
        "model is unknown",
        got=type(model).__name__,
        allowed=f"{', '.join(map(repr, SHIPPED_DRAWS))}, the folder of a model, or a model",
    )


def _choose_visibility(name: object, model: AnyModel) -> Visibility:
    """Return the model's own visibility, or the named one if the model was trained for it."""
    if isinstance(name, str) and name == AUTO:
        return model.visibility
    if not isinstance(name, str) or name not in list(Visibility):
        allowed = ", ".join([AUTO, *Visibility])
        raise InvalidConfig("visibility is unknown", got=name, allowed=allowed)
    visibility = Visibility(name)
    if visibility not in model.trained_for:  # the network would run, but its answers mean little
        older = " If this one was, its folder is too old to say so; add to its config.json:"
        older += f' "trained_for": ["{model.visibility}", "{visibility}"].'
        raise InvalidConfig(
            "the model was not trained for this visibility",
            got=visibility,
            allowed=", ".join([AUTO, *model.trained_for]),
            remedy=f"Set visibility='{AUTO}', or give a model that was trained for '{visibility}'."
            + ("" if model.trained_visibilities else older),
        )
    return visibility


def _choose_precision(name: object) -> Precision:
    if not isinstance(name, str) or name not in list(Precision):
        raise InvalidConfig("precision is unknown", got=name, allowed=", ".join(Precision))
    return Precision(name)


def _optional_count(value: object, name: str) -> int | None:
    """Return `value` if it is None or an integer of 1 or more; refuse anything else."""
    return None if value is None else checked_count(value, name, "1 or more, or None")


def checked_count(value: object, name: str, allowed: str = "1 or more") -> int:
    """Return `value` if it is an integer of 1 or more; refuse anything else."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1:
        raise InvalidConfig(f"{name} is out of range", got=repr(value), allowed=allowed)
    return number


def _check_one_class_weighting(parameters: Parameters) -> None:
    """Refuse contradictory ways to weight the classes."""
    if parameters.class_shares is not None and parameters.class_prior is not None:
        raise InvalidConfig(
            "two parameters state how often the classes occur",
            got="class_shares and class_prior",
            allowed="one of them",
            remedy="Give class_shares alone for rows that are answered together.",
        )
    if parameters.class_weight is not None and parameters.class_prior is not None:
        raise InvalidConfig(
            "two parameters weight the classes",
            got="class_weight and class_prior",
            allowed="one of them",
            remedy="Give class_prior alone if you know how often the classes occur.",
        )
    if not isinstance(parameters.class_weight, str | Mapping | None):
        raise InvalidConfig(
            "class_weight is out of range",
            got=repr(parameters.class_weight),
            allowed=f"None, '{BALANCED}', or numbers above 0 by label",
        )


@contextmanager
def unchanged_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """Restore an estimator's attributes if an error leaves it between two fits."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def parameters_of(estimator: BaseEstimator) -> dict[str, Any]:
    """Return an estimator's parameters, as `get_params` does, but without copying any."""
    return {name: getattr(estimator, name) for name in _parameter_names(type(estimator))}  # type: ignore[arg-type]


@cache
def _parameter_names(kind: type[BaseEstimator]) -> tuple[str, ...]:
    """Return the names of an estimator's parameters; cached, as reading the signature is slow."""
    return tuple(kind._get_param_names())
