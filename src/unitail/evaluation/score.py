"""Score learners on the same episodes: accuracy, calibration, time and memory."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from unitail.evaluation.episodes import FixedBatch, FixedEpisodes, Source
from unitail.evaluation.metrics import Calibration, brier_score, negative_log_likelihood
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Evaluation, Outcome, Scores
from unitail.framework.episode import Episode
from unitail.framework.learner import Cannot, Inference, ask
from unitail.framework.task import accuracy
from unitail.progress import OnProgress

MEBIBYTE = 2**20


def score_learner(
    learner: Inference,
    source: Source,
    protocol: EvaluationProtocol | None = None,
    *,
    device: torch.device | str = "cpu",
) -> Evaluation:
    """Measure a learner on episodes of a bank, a distribution of tasks or a task.

    The episodes depend only on the source and the protocol, so learners measured with the same two
    answer the same queries. Episodes are drawn on the CPU and moved to `device`, where the learner
    should be.
    """
    name = type(learner).__name__
    return score_learners({name: learner}, source, protocol, device=device)[name]


def score_learners(
    learners: Mapping[str, Inference],
    source: Source,
    protocol: EvaluationProtocol | None = None,
    *,
    device: torch.device | str = "cpu",
    on_progress: OnProgress | None = None,
) -> dict[str, Evaluation]:
    """Measure several learners; every batch is drawn once and answered by all of them.

    A learner that cannot solve such tasks, or runs out of memory, does not stop the others.
    Progress counts answers: episodes times learners.
    """
    episodes = FixedEpisodes.of(source, protocol or EvaluationProtocol())
    device = torch.device(device)
    records = [_Record(name, learner, device) for name, learner in learners.items()]
    done, total = 0, episodes.protocol.episodes * len(records)
    for batch in episodes.batches():
        moved = batch.episode.to(device)
        for record in records:
            record.ask(batch, moved)
            done += len(batch.hashes)
            if on_progress is not None:
                on_progress(done, total)
    return {record.name: record.result(episodes) for record in records}


def device_name(device: torch.device) -> str:
    """Return the name of a device in reports."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


@dataclass(eq=False)
class _Record:
    """Results of one learner so far."""

    name: str
    learner: Inference
    device: torch.device
    outcome: Outcome = Outcome.ANSWERED
    reason: str = ""
    scores: list[Scores] = field(default_factory=list)
    calibration: Calibration = field(default_factory=Calibration.empty)

    def ask(self, batch: FixedBatch, moved: Episode) -> None:
        """Let the learner answer a batch and score it, unless it failed on an earlier one."""
        if self.outcome is not Outcome.ANSWERED:
            return
        try:
            if not self.scores:  # warm-up: the first call is slower
                self._timed_answers(moved, batch.draw_seed)
            answers, seconds, memory = self._timed_answers(moved, batch.draw_seed)
        except torch.cuda.OutOfMemoryError as error:
            self.outcome, self.reason = Outcome.OUT_OF_MEMORY, str(error).split(". ")[0]
        else:
            if isinstance(answers, Cannot):
                self.outcome, self.reason = Outcome.CANNOT, str(answers)
            else:
                self._score(batch, answers.float(), seconds, memory)
        # Only now is the error gone that kept tensors alive.
        if self.outcome is Outcome.OUT_OF_MEMORY:
            torch.cuda.empty_cache()

    def result(self, episodes: FixedEpisodes) -> Evaluation:
        """Combine the batches into an `Evaluation`."""
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

    def _timed_answers(self, moved: Episode, seed: int) -> tuple[Tensor | Cannot, float, float]:
        """Return the answers, the seconds and the peak memory in MiB (NaN on a CPU)."""
        gpu, before = self.device.type == "cuda", 0
        if gpu:
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            before = torch.cuda.memory_allocated(self.device)
        start = time.perf_counter()
        answers = ask(self.learner, moved, seed, name=self.name)
        seconds = time.perf_counter() - start  # answers on the CPU have waited for the device
        peak = torch.cuda.max_memory_allocated(self.device) if gpu else np.nan
        return answers, seconds, (peak - before) / MEBIBYTE

    def _score(self, batch: FixedBatch, answers: Tensor, seconds: float, memory: float) -> None:
        truth = batch.episode.query.class_indices
        assert truth is not None, "test episodes have labelled queries"
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
