"""The paper's two views of learning, and the adapters that induce each from the other.

A *learning algorithm* A maps a support set to a hypothesis f (section 2.1). A
*demonstration-conditioned inference* g maps a support set and a query to a prediction (section
3.1). For every g there is A_g with A_g(S)(x) = g(S, x), and for every A there is g_A with
g_A(S, x) = A(S)(x).

Predictions are log-probabilities over the K classes; their argmax is the paper's label. Every
measurement gets them through `ask`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from torch import Tensor

from unitail.errors import CannotSolve, UserError
from unitail.framework.episode import Episode, Support

TOLERANCE = 0.05
"""Largest allowed |log sum of probabilities| of an answer."""


class Paradigm(StrEnum):
    """Whether the learning algorithm is explicit or emerges from trained weights (section 3.2)."""

    EXPLICIT = "explicit"
    """A written-down algorithm, such as logistic regression."""
    IMPLICIT = "implicit"
    """Emerges from weights, as in TAIL."""
    MIXED = "mixed"
    """Trained weights correct the answers of an explicit algorithm; not in the paper."""


class Hypothesis(Protocol):
    """f: the function from queries to predictions that a learning algorithm returns."""

    def __call__(self, query_features: Tensor) -> Tensor:
        """Return log-probabilities (B, m, K) of queries (B, m, d_T)."""
        ...


class LearningAlgorithm(Protocol):
    """A: S -> f."""

    @property
    def paradigm(self) -> Paradigm:
        """Explicit, implicit or mixed."""
        ...

    def fit(self, support: Support) -> Hypothesis:
        """Return the hypothesis for a support set."""
        ...


class Inference(Protocol):
    """g: (S, x) -> y, demonstration-conditioned inference (DCI)."""

    @property
    def paradigm(self) -> Paradigm:
        """Explicit, implicit or mixed."""
        ...

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Return log-probabilities (B, m, K) of queries (B, m, d_T), given the support."""
        ...


class Learner(LearningAlgorithm, Inference, Protocol):
    """A learner that implements both views, as all in this package do."""


@runtime_checkable
class Randomised(Protocol):
    """A learner whose answers depend on random draws from a seed."""

    def with_seed(self, seed: int) -> Inference:
        """Return the same learner with other draws."""
        ...


def reseeded(learner: Inference, seed: int) -> Inference:
    """Return the learner with draws from `seed`, if it is randomised; otherwise the learner itself.

    A measurement over many episodes must not use the same draws in every batch: their luck would
    bias the mean, and the interval would not show it.
    """
    return learner.with_seed(seed) if isinstance(learner, Randomised) else learner


@dataclass(frozen=True)
class InducedAlgorithm:
    """A_g, with A_g(S)(x) = g(S, x)."""

    inference: Inference

    @property
    def paradigm(self) -> Paradigm:
        """The paradigm of the inference it is induced from."""
        return self.inference.paradigm

    def fit(self, support: Support) -> Hypothesis:
        """Return a hypothesis that runs the inference on each call."""
        return lambda query_features: self.inference.infer(support, query_features)


@dataclass(frozen=True)
class InducedInference:
    """g_A, with g_A(S, x) = A(S)(x)."""

    algorithm: LearningAlgorithm

    @property
    def paradigm(self) -> Paradigm:
        """The paradigm of the algorithm it is induced from."""
        return self.algorithm.paradigm

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Fit, then apply the hypothesis."""
        return self.algorithm.fit(support)(query_features)


@dataclass(frozen=True)
class Cannot:
    """Returned in place of answers if the learner cannot solve the task."""

    error: CannotSolve

    def __str__(self) -> str:
        return str(self.error)


def ask(
    learner: Inference, episode: Episode, seed: int, *, name: str | None = None
) -> Tensor | Cannot:
    """Query a learner: return validated log-probabilities (B, m, K) on the CPU, or `Cannot`.

    `seed` determines the draws of a randomised learner; measurements use another seed for each
    batch (see `reseeded`). `name` is the learner's name in error messages.
    """
    try:
        # Detached rather than computed without gradients: some learners fit by gradient descent.
        answers = reseeded(learner, seed).infer(episode.support, episode.query.features).detach()
    except CannotSolve as error:
        return Cannot(error)
    answers = answers.cpu()
    shape = (*episode.query.features.shape[:2], episode.ways)
    check_log_probabilities(answers, shape, name or type(learner).__name__)
    return answers


def check_log_probabilities(answers: Tensor, shape: tuple[int, ...], name: str) -> None:
    """Refuse answers of the learner `name` that are not log-probabilities of this shape."""
    if answers.shape != shape:
        raise UserError(
            f"the answers of {name} have the wrong shape",
            got=tuple(answers.shape),
            allowed=f"{shape}",
        )
    if answers.isnan().any():  # argmax would return the place of a NaN
        raise UserError(
            f"the log-probabilities of {name} are not numbers",
            got=f"{int(answers.isnan().sum())} NaN of {answers.numel()} values",
            allowed="log-probabilities",
            remedy="Correct or retrain the learner.",
        )
    excess = float(answers.float().logsumexp(dim=-1).abs().max())
    if excess > TOLERANCE:
        raise UserError(
            f"the answers of {name} are not log-probabilities",
            got=f"probabilities with a sum of up to exp(±{excess:.3g})",
            allowed="a sum of 1 for each query",
            remedy="End the learner with `log_softmax(dim=-1)`.",
        )
