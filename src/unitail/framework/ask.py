"""Asking a learner about a batch of episodes: the one way, for every measurement."""

from dataclasses import dataclass

from torch import Tensor

from unitail.errors import CannotSolve, UserError
from unitail.framework.episode import Episode
from unitail.framework.learner import Inference, reseeded

TOLERANCE = 0.05
"""How far the logarithm of the sum of an answer's probabilities may be from zero."""


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
