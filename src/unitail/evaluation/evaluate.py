"""Many episodes, the same ones for every learner: how right, how sure, how fast."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from unitail.errors import CannotSolve
from unitail.evaluation.episodes import Batch, FixedEpisodes, Source
from unitail.evaluation.metrics import (
    Calibration,
    accuracy,
    brier_score,
    check_log_probabilities,
    negative_log_likelihood,
)
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Evaluation, Outcome, Scores
from unitail.framework.episode import Episode
from unitail.framework.learner import Inference, reseeded

MEBIBYTE = 2**20

OnProgress = Callable[[str, int], None]
"""Told after each batch which learner was asked, and how many episodes that were."""


def evaluate(
    learner: Inference,
    source: Source,
    protocol: EvaluationProtocol | None = None,
    *,
    device: torch.device | str = "cpu",
) -> Evaluation:
    """Measure a learner on episodes of a bank, a distribution of tasks or a task.

    The episodes depend on the source and the protocol alone, so learners measured with the same
    ones answer the same questions. They are drawn on the CPU and moved to `device`, where the
    learner should be.
    """
    name = type(learner).__name__
    return evaluate_all({name: learner}, source, protocol, device=device)[name]


def evaluate_all(
    learners: Mapping[str, Inference],
    source: Source,
    protocol: EvaluationProtocol | None = None,
    *,
    device: torch.device | str = "cpu",
    on_progress: OnProgress | None = None,
) -> dict[str, Evaluation]:
    """Measure several learners; every batch is drawn once and answered by all of them.

    One that cannot solve such tasks, or runs out of memory, does not keep the others from it.
    """
    episodes = FixedEpisodes.of(source, protocol or EvaluationProtocol())
    device = torch.device(device)
    records = [_Record(name, learner, device) for name, learner in learners.items()]
    for batch in episodes.batches():
        moved = batch.episode.to(device)
        for record in records:
            record.ask(batch, moved)
            if on_progress is not None:
                on_progress(record.name, len(batch.hashes))
    return {record.name: record.result(episodes) for record in records}


def device_name(device: torch.device) -> str:
    """Return what reports call a device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


@dataclass(eq=False)
class _Record:
    """What is known of a learner so far."""

    name: str
    learner: Inference
    device: torch.device
    outcome: Outcome = Outcome.ANSWERED
    reason: str = ""
    scores: list[Scores] = field(default_factory=list)
    calibration: Calibration = field(default_factory=Calibration.empty)

    def ask(self, batch: Batch, moved: Episode) -> None:
        """Let the learner answer a batch, unless it gave up before."""
        if self.outcome is not Outcome.ANSWERED:
            return
        try:
            self._answer(batch, moved)
        except CannotSolve as error:
            self.outcome, self.reason = Outcome.CANNOT, str(error)
        except torch.cuda.OutOfMemoryError as error:
            self.outcome, self.reason = Outcome.OUT_OF_MEMORY, str(error).split(". ")[0]
        if self.outcome is Outcome.OUT_OF_MEMORY:  # after the error let go of what it held
            torch.cuda.empty_cache()

    def result(self, episodes: FixedEpisodes) -> Evaluation:
        """Sum up."""
        answered = self.outcome is Outcome.ANSWERED
        return Evaluation(
            source=episodes.name,
            protocol=episodes.protocol,
            device=device_name(self.device),
            outcome=self.outcome,
            reason=self.reason,
            scores=Scores.joined(self.scores if answered else []),
            calibration=self.calibration if answered else Calibration.empty(),
        )

    def _answer(self, batch: Batch, moved: Episode) -> None:
        learner = reseeded(self.learner, batch.draw_seed)
        if not self.scores:  # the first call pays for what later ones find ready
            _timed_answers(learner, moved, self.device)
        answers, seconds, memory = _timed_answers(learner, moved, self.device)
        truth = batch.episode.query.class_indices
        assert truth is not None, "test episodes have labelled queries"
        check_log_probabilities(answers, (*truth.shape, batch.episode.ways), self.name)
        count = len(truth)
        self.scores.append(
            Scores(
                hashes=batch.hashes,
                accuracy=accuracy(answers, truth).numpy(),
                nll=negative_log_likelihood(answers, truth).numpy(),
                brier=brier_score(answers, truth).numpy(),
                seconds=np.full(count, seconds / count, np.float32),
                memory=np.full(count, memory, np.float32),
            )
        )
        self.calibration += Calibration.of(answers, truth)


def _timed_answers(
    learner: Inference, episode: Episode, device: torch.device
) -> tuple[Tensor, float, float]:
    """Return the answers on the CPU as float32, the seconds, and the peak memory in MiB."""
    before = _start_of_memory(device)
    start = time.perf_counter()
    # Detached here rather than computed without gradients: some learners fit by gradient descent.
    answers = learner.infer(episode.support, episode.query.features).detach().float().cpu()
    seconds = time.perf_counter() - start  # the copy has waited for the device
    if before is None:
        return answers, seconds, np.nan
    return answers, seconds, (torch.cuda.max_memory_allocated(device) - before) / MEBIBYTE


def _start_of_memory(device: torch.device) -> int | None:
    """Wait for the device and return what is allocated; None on a CPU."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)
