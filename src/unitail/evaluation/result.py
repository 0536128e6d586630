"""What came of a test: a number for each episode, or the reason why there is none."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.errors import UserError
from unitail.evaluation.metrics import Calibration
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.framework.statistics import MeanInterval

Values = NDArray[np.float32]


class Outcome(StrEnum):
    """Whether a learner answered."""

    ANSWERED = "answered"
    CANNOT = "cannot"
    """It says that it cannot solve such tasks."""
    OUT_OF_MEMORY = "out of memory"
    """The device has too little memory for it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """One number for each of E episodes, (E,), of each kind."""

    hashes: NDArray[np.uint64]
    """What tells the episodes apart; the same episodes have the same hashes in every run."""
    accuracy: Values
    """The share of right answers."""
    nll: Values
    """The mean negative log-likelihood of the true classes, in nats."""
    brier: Values
    """The mean Brier score, from 0 to 2."""
    seconds: Values
    """The time of an answer to all queries, support included; the mean over its batch."""
    memory: Values
    """The device's peak memory in MiB for the answers to its batch, above what was taken before:
    weights and episodes do not count. NaN on a CPU."""

    @classmethod
    def joined(cls, parts: "list[Scores]") -> "Scores":
        """Put batches one after the other; of none, the scores of no episode."""
        return cls(**{each.name: cls._column(each.name, parts) for each in fields(cls)})

    @staticmethod
    def _column(name: str, parts: "list[Scores]") -> NDArray[Any]:
        kind = np.uint64 if name == "hashes" else np.float32
        return np.concatenate([np.empty(0, kind), *(getattr(part, name) for part in parts)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """What one learner did on the episodes of one source."""

    source: str
    """What the episodes were drawn from."""
    protocol: EvaluationProtocol
    """The true shape of the episodes."""
    device: str
    """Where the learner ran."""
    outcome: Outcome
    reason: str
    """Why there are no scores; empty where there are."""
    scores: Scores
    """One number for each episode; of no episode unless the learner answered."""
    calibration: Calibration

    @property
    def accuracy(self) -> MeanInterval:
        """The mean accuracy with its interval."""
        return self._mean(self.scores.accuracy)

    @property
    def nll(self) -> MeanInterval:
        """The mean negative log-likelihood; infinite if a true class had probability zero."""
        return self._mean(self.scores.nll)

    @property
    def brier(self) -> MeanInterval:
        """The mean Brier score."""
        return self._mean(self.scores.brier)

    @property
    def milliseconds(self) -> float:
        """The mean time for an episode; a batch is timed as a whole, so there is no interval."""
        return 1000 * float(self._answered(self.scores.seconds).mean())

    @property
    def memory(self) -> float:
        """The peak memory in MiB, without weights and episodes; NaN on a CPU."""
        return float(self._answered(self.scores.memory).max())

    def __str__(self) -> str:
        what = f"{self.source}, {self.protocol.name}"
        if self.outcome is not Outcome.ANSWERED:
            return f"{what}: {self.outcome} ({self.reason})"
        return (
            f"{what}: accuracy {self.accuracy}, nll {self.nll:.4f}, Brier score {self.brier:.4f},"
            f" calibration error {self.calibration.error:.4f}"
        )

    def _mean(self, values: Values) -> MeanInterval:
        with np.errstate(invalid="ignore"):  # infinity minus infinity has no spread
            return MeanInterval.of(self._answered(values))

    def _answered(self, values: Values) -> Values:
        """Refuse to sum up what is not there."""
        if self.outcome is not Outcome.ANSWERED:
            raise UserError(
                f"the learner has no scores on {self.source}",
                got=f"{self.outcome}: {self.reason}",
                allowed="a learner that answered",
                remedy="Look at `outcome` first.",
            )
        return values
