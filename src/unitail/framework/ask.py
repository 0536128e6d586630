"""Asking a learner about a batch of episodes: the one way, for every measurement."""

from dataclasses import dataclass

from torch import Tensor

from unitail.errors import CannotSolve
from unitail.framework.checks import check_log_probabilities
from unitail.framework.episode import Episode
from unitail.framework.learner import Inference, reseeded


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
