r"""Torch modules for export: tensors in, tensors out, without control flow that depends on values.

A fitted classifier becomes f_S: what its model computed from the support is part of the graph. A
model becomes g(S, x): the support is an input.

Operators of torch that ONNX lacks, or that only serve speed, are replaced.

- Splitting rows into chunks for the CPU's caches would fix their number: it is left out.
- Layers of no rows, which some runtimes cannot handle, return zeros of the right shape.
- An in-place change of a diagonal becomes a change of the whole matrix.
- ONNX cannot invert matrices. The inverse of a positive definite A, which our models compute with
  the Cholesky factor, is found by Newton's iteration (Schulz 1933)

      X <- X (2 I - A X),    X_0 = I / max_i sum_j |A_ij|,

  which squares the error I - A X in each step, and needs only matrix products. The error is at
  most 1 - 1 / κ at first, κ the condition number of A in that norm, so log2(κ) + 6 steps are
  enough; `STEPS` suffices for κ up to 1e9.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from unitail.encoders.tables import MAX_DEVIATIONS
from unitail.errors import InvalidConfig
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.fitted import Fitted, support_limit
from unitail.estimator.scaling import Scaling
from unitail.estimator.settings import Precision
from unitail.framework.episode import Support
from unitail.learners.in_context import InContextHypothesis
from unitail.nn.episode_model import AnyModel, Visibility
from unitail.randomness import stream

STEPS = 36


def newton_inverse(matrices: Tensor) -> Tensor:
    """Invert positive definite matrices (..., n, n), in double precision."""
    a = matrices.double()
    unit = torch.eye(a.shape[-1], dtype=a.dtype)
    inverse = unit / a.abs().sum(dim=-1, keepdim=True).amax(dim=-2, keepdim=True)
    for _ in range(STEPS):
        inverse = inverse @ (2 * unit - a @ inverse)
    return inverse.to(matrices.dtype)


class Exportable(TorchFunctionMode):
    """A context in which torch functions that cannot be exported are replaced."""

    def __init__(self) -> None:
        super().__init__()
        self._factored: dict[int, tuple[Tensor, Tensor]] = {}
        self._diagonals: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        """Call a function, or its replacement."""
        if func in (torch.split, Tensor.split):
            return (args[0],)
        if func is F.linear and 0 in args[0].shape[:-1]:
            return args[0].new_zeros((*args[0].shape[:-1], args[1].shape[0]))
        if func is Tensor.diagonal:
            view = func(*args, **(kwargs or {}))
            self._diagonals[id(view)] = (view, args[0])
            return view
        if func in (Tensor.zero_, Tensor.add_) and id(args[0]) in self._diagonals:
            return self._change_diagonal(*args)
        if func is torch.linalg.cholesky:
            factor = args[0] + 0  # a placeholder: only the inverse of the matrix is used later
            self._factored[id(factor)] = (factor, args[0])
            return factor
        if func is torch.cholesky_inverse and id(args[0]) in self._factored:
            return newton_inverse(self._factored[id(args[0])][1])
        return func(*args, **(kwargs or {}))

    def _change_diagonal(self, view: Tensor, added: Tensor | None = None) -> Tensor:
        """Set the diagonal of square matrices to zero, or add to it."""
        matrices = self._diagonals[id(view)][1]
        unit = torch.eye(matrices.shape[-1], dtype=matrices.dtype)
        if added is None:
            matrices.mul_(1 - unit)
        else:
            matrices.add_(unit * added.unsqueeze(-1))
        return view


class ClassifierGraph(nn.Module):
    """Vectors (rows, d_T) in single precision to probabilities (rows, K) and class indices.

    A NaN is a missing value. Infinite values, which the classifier refuses, make a row's
    probabilities NaN and its index -1.
    """

    inputs = ("vectors",)
    outputs = ("probabilities", "class_indices")

    def __init__(self, classifier: TailClassifier) -> None:
        super().__init__()
        fitted = _in_single(classifier)
        hypothesis = fitted.hypothesis
        if not isinstance(hypothesis, InContextHypothesis):
            raise InvalidConfig(
                "only classifiers that read all support rows at once can be exported",
                got=f"{len(fitted.rows):,} rows, or several parts",
                allowed="at most max_support rows, and one part",
                remedy="Fit fewer rows.",
            )
        self.model, self._reads, self._convert = (
            hypothesis.model,
            hypothesis.reads,
            hypothesis.convert,
        )
        scaling = fitted.scaling
        assert isinstance(scaling, Scaling), "parts were refused above"
        self._standard = scaling.choice.standardises
        self._view = scaling.view if scaling.choice.views else None
        self._register("column_medians", scaling.label_free.medians)
        if self._standard:
            mean, factor, missing = scaling.label_free.moments
            indicated = np.flatnonzero(missing > 0)
            self._register("column_means", mean)
            self._register("column_factors", factor)
            self._register("indicated_columns", indicated)
            self._register("missing_marks", missing[indicated])
        zeros = np.zeros(fitted.rows.ways)
        self._register("prior_offsets", zeros if fitted.offsets is None else fitted.offsets.cpu())

    def _register(self, name: str, values: Any) -> None:  # noqa: ANN401 - an array
        self.register_buffer(name, torch.as_tensor(np.asarray(values)))

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probabilities (rows, K) and class indices (rows,) of vectors (rows, d_T)."""
        with Exportable():
            rows = self._scaled(vectors.double())
            scores = _answers(self.model, self._reads, self._convert, rows.unsqueeze(0))[0]
            probabilities = (scores.double() + cast("Tensor", self.prior_offsets)).softmax(dim=-1)
            is_refused = vectors.isinf().any(dim=-1)
            indices = probabilities.argmax(dim=-1).masked_fill(is_refused, -1)
            probabilities = probabilities.masked_fill(is_refused.unsqueeze(-1), math.nan)
            return probabilities.float(), indices

    def _scaled(self, rows: Tensor) -> Tensor:
        """Scale rows like `Scaling`."""
        absent = rows.isnan()
        rows = torch.where(absent, cast("Tensor", self.column_medians), rows)
        if self._standard:
            rows = self._standardised(rows, absent)
        return rows if self._view is None else self._view(rows[None])[0]

    def _standardised(self, rows: Tensor, absent: Tensor) -> Tensor:
        mean, factor = cast("Tensor", self.column_means), cast("Tensor", self.column_factors)
        rows = ((rows - mean) * factor).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)
        marks = absent[:, cast("Tensor", self.indicated_columns)].double() * cast(
            "Tensor", self.missing_marks
        )
        return torch.cat([rows, marks], dim=1)


class ModelGraph(nn.Module):
    """A support (n, d_T), its class indices (n,) and queries (m, d_T) to probabilities (m, K).

    A query that is not finite has NaN as its probabilities; if a row of the support is not, all do.
    """

    inputs = ("support", "class_indices", "queries")
    outputs = ("probabilities",)

    def __init__(self, model: AnyModel, *, classes: int, width: int, seed: int = 0) -> None:
        super().__init__()
        self.model, self._classes = model, classes
        generator = stream(seed, "draws")
        self._draw = model.draw_for(
            episodes=1, ways=classes, feature_dim=width, generator=generator
        )

    def forward(self, support: Tensor, class_indices: Tensor, queries: Tensor) -> Tensor:
        """Read the support and answer the queries, each by itself."""
        with Exportable():
            labelled = Support(
                features=support.double().unsqueeze(0),
                class_indices=class_indices.unsqueeze(0),
                ways=self._classes,
            )
            scale = self.model.preconditioner([labelled.features])
            rows = queries.double().unsqueeze(0)
            if scale is not None:
                labelled = replace(labelled, features=scale(labelled.features))
                rows = scale(rows)
            labelled = replace(labelled, features=labelled.features.float())
            read = self.model.read(labelled, self._draw, Visibility.ISOLATED)
            probabilities = self.model.answer(read, rows.float())[0].softmax(dim=-1)
            is_refused = ~queries.isfinite().all(dim=-1, keepdim=True) | ~support.isfinite().all()
            return probabilities.masked_fill(is_refused, math.nan)


def _answers(model: AnyModel, reads: tuple[Any, ...], enter: Any, rows: Tensor) -> Tensor:  # noqa: ANN401
    """Compute log-probabilities like `InContextHypothesis`, without control flow on values."""
    if enter.scale is not None:
        rows = enter.scale(rows)
    rows = rows.to(enter.dtype)
    answers = torch.stack([model.answer(read, rows) for read in reads])
    return answers.log_softmax(dim=-1).logsumexp(dim=0) - math.log(len(reads))


def _in_single(classifier: TailClassifier) -> Fitted:
    """Fit the classifier's rows again in single precision, in which all runtimes compute."""
    fitted: Fitted = classifier.fitted_
    if not fitted.settings.visibility.isolates_queries:
        raise InvalidConfig(
            "joint answers cannot be exported",
            got=f"visibility='{fitted.settings.visibility}'",
            allowed="visibility='isolated'",
            remedy="Fit or load the classifier with visibility='isolated'.",
        )
    if fitted.settings.parts:
        raise InvalidConfig(
            "classifiers of several parts cannot be exported",
            got=f"parts of {', '.join(map(str, fitted.settings.parts))} columns",
            allowed="vectors of one part",
            remedy="Export a classifier of one of the parts, or serve this one: unitail serve.",
        )
    settings = replace(fitted.settings, precision=Precision.SINGLE, device=torch.device("cpu"))
    limit = support_limit(settings.max_support, fitted.rows.ways)
    if limit is None or fitted.rows.total <= limit:  # all rows at once, however many classes
        settings = replace(settings, max_support=None)
    return Fitted.of(fitted.rows, settings, fitted.pool)
