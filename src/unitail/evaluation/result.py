"""Results of a test: scores for each episode, or the reason why there are none."""

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
    """Whether a learner answered the episodes."""

    ANSWERED = "answered"
    CANNOT = "cannot"
    """The learner reports that it cannot solve such tasks."""
    OUT_OF_MEMORY = "out of memory"
    """The device has too little memory for the learner."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Scores of E episodes, as columns of shape (E,)."""

    hashes: NDArray[np.uint64]
    """Identify the episodes; the same episodes have the same hashes in every run."""
    accuracy: Values
    """Share of correct predictions."""
    nll: Values
    """Mean negative log-likelihood of the true classes, in nats."""
    brier: Values
    """Mean Brier score, from 0 to 2."""
    seconds: Values
    """Time to process the support and answer all queries, averaged over the batch."""
    memory: Values
    """Peak device memory in MiB while answering its batch, beyond what was allocated before (so
    without weights and episodes). NaN on a CPU."""

    @classmethod
    def joined(cls, parts: "list[Scores]") -> "Scores":
        """Concatenate the scores of batches; no batches give empty columns."""
        return cls(**{each.name: cls._column(each.name, parts) for each in fields(cls)})

    @staticmethod
    def _column(name: str, parts: "list[Scores]") -> NDArray[Any]:
        kind = np.uint64 if name == "hashes" else np.float32
        return np.concatenate([np.empty(0, kind), *(getattr(part, name) for part in parts)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """The result of one learner on the episodes of one source."""

    source: str
    """Name of the source of the episodes."""
    protocol: EvaluationProtocol
    """The actual shape of the episodes."""
    device: str
    """Name of the device the learner ran on."""
    outcome: Outcome
    reason: str
    """Why there are no scores; empty if there are."""
    scores: Scores
    """Scores of each episode; empty unless the learner answered."""
    calibration: Calibration

    @property
    def accuracy(self) -> MeanInterval:
        """Mean accuracy with its interval."""
        return self._mean(self.scores.accuracy)

    @property
    def nll(self) -> MeanInterval:
        """Mean negative log-likelihood; infinite if a true class had probability zero."""
        return self._mean(self.scores.nll)

    @property
    def brier(self) -> MeanInterval:
        """Mean Brier score with its interval."""
        return self._mean(self.scores.brier)

    @property
    def milliseconds(self) -> float:
        """Mean time per episode; batches are timed as a whole, so there is no interval."""
        return 1000 * float(self._answered(self.scores.seconds).mean())

    @property
    def memory(self) -> float:
        """Peak memory in MiB, without weights and episodes; NaN on a CPU."""
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
        """Return the values; raise if the learner did not answer."""
        if self.outcome is not Outcome.ANSWERED:
            raise UserError(
                f"the learner has no scores on {self.source}",
                got=f"{self.outcome}: {self.reason}",
                allowed="a learner that answered",
                remedy="Look at `outcome` first.",
            )
        return values
