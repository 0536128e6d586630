"""The paper's two views of learning, and the adapters that induce each from the other.

A *learning algorithm* A maps a support set to a hypothesis f (section 2.1). A
*demonstration-conditioned inference* g maps a support set and a query to a prediction (section
3.1). For every g there is A_g with A_g(S)(x) = g(S, x), and for every A there is g_A with
g_A(S, x) = A(S)(x).

Predictions are log-probabilities over the K classes; their argmax is the paper's label. `ask` is
the one way to them, for every measurement.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from torch import Tensor

from unitail.errors import CannotSolve, UserError
from unitail.framework.episode import Episode, Support

TOLERANCE = 0.05
"""How far the logarithm of the sum of an answer's probabilities may be from zero."""


class Paradigm(StrEnum):
    """Whether the learning algorithm is written down or emerges from trained weights (3.2)."""

    EXPLICIT = "explicit"
    """Written down, as logistic regression is."""
    IMPLICIT = "implicit"
    """Emerges from weights, as in TAIL."""
    MIXED = "mixed"
    """Not the paper's: weights correct the answer of an algorithm that is written down."""


class Hypothesis(Protocol):
    """f: what a learning algorithm makes of a support set."""

    def __call__(self, query_features: Tensor) -> Tensor:
        """Answer queries (B, m, d_T) with log-probabilities (B, m, K)."""
        ...


class LearningAlgorithm(Protocol):
    """A: S -> f."""

    @property
    def paradigm(self) -> Paradigm:
        """Explicit, implicit or mixed."""
        ...

    def fit(self, support: Support) -> Hypothesis:
        """Turn a support set into a hypothesis."""
        ...


class Inference(Protocol):
    """g: (S, x) -> y, demonstration-conditioned inference (DCI)."""

    @property
    def paradigm(self) -> Paradigm:
        """Explicit, implicit or mixed."""
        ...

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Answer queries (B, m, d_T) given the support: log-probabilities (B, m, K)."""
        ...


class Learner(LearningAlgorithm, Inference, Protocol):
    """A learner that offers both views, as all of ours do."""


@runtime_checkable
class Randomised(Protocol):
    """A learner whose answers depend on draws that a seed decides."""

    def with_seed(self, seed: int) -> Inference:
        """Return the same learner with other draws."""
        ...


def reseeded(learner: Inference, seed: int) -> Inference:
    """Return the learner with other draws, if it has any.

    A measurement over many episodes must not use the same draws in every batch of them: what luck
    they bring would be taken for the learner's own, and the interval would not know.
    """
    return learner.with_seed(seed) if isinstance(learner, Randomised) else learner


@dataclass(frozen=True)
class InducedAlgorithm:
    """A_g, with A_g(S)(x) = g(S, x)."""

    inference: Inference

    @property
    def paradigm(self) -> Paradigm:
        """As the inference it is induced from."""
        return self.inference.paradigm

    def fit(self, support: Support) -> Hypothesis:
        """Keep the support set; the work is done when a query comes."""
        return lambda query_features: self.inference.infer(support, query_features)


@dataclass(frozen=True)
class InducedInference:
    """g_A, with g_A(S, x) = A(S)(x)."""

    algorithm: LearningAlgorithm

    @property
    def paradigm(self) -> Paradigm:
        """As the algorithm it is induced from."""
        return self.algorithm.paradigm

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Fit, then apply the hypothesis."""
        return self.algorithm.fit(support)(query_features)


@dataclass(frozen=True)
class Cannot:
    """In place of answers: the learner says that it cannot solve such tasks."""

    error: CannotSolve

    def __str__(self) -> str:
        return str(self.error)


def ask(
    learner: Inference, episode: Episode, seed: int, *, name: str | None = None
) -> Tensor | Cannot:
    """Return log-probabilities (B, m, K) on the CPU, checked; `name` is for error messages.

    `seed` decides the draws of a randomised learner. A measurement takes another one for each
    batch: see `reseeded`.
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
    if answers.isnan().any():  # argmax would take NaN for the most probable class
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
