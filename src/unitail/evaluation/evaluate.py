"""Accuracy over many episodes, the same ones for every learner."""

import torch

from unitail.errors import UserError
from unitail.evaluation.metrics import accuracy
from unitail.framework.checks import check_answers
from unitail.framework.learner import Inference, reseeded
from unitail.framework.statistics import MeanInterval
from unitail.framework.task import Task
from unitail.randomness import stream


def evaluate(
    learner: Inference,
    task: Task,
    *,
    shots: int,
    queries: int = 15,
    episodes: int = 600,
    seed: int = 0,
    batch: int = 50,
) -> MeanInterval:
    """Measure the mean accuracy of `learner` on N-shot instances of `task`, with its interval.

    The episodes depend on the task's name, the shots and the seed alone, so learners measured with
    the same arguments answer the same questions.
    """
    generator = stream(seed, "evaluation", task.name, shots)
    accuracies = []
    for name, got, least in (("episodes", episodes, 2), ("batch", batch, 1)):
        if got < least:
            raise UserError(f"{name} are too few", got=got, allowed=f"{least} or more")
    for start in range(0, episodes, batch):
        size = min(batch, episodes - start)
        episode = task.sample(episodes=size, shots=shots, queries=queries, generator=generator)
        drawn = reseeded(learner, seed + start)
        answers = drawn.infer(episode.support, episode.query.features).cpu()
        check_answers(answers)
        assert episode.query.class_indices is not None, "tasks sample labelled queries"
        accuracies.append(accuracy(answers, episode.query.class_indices.cpu()))
    return MeanInterval.of(torch.cat(accuracies).numpy())
