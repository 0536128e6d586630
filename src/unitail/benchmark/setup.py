"""The inputs of a benchmark as plain values, so that any process can open it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unitail.benchmark.learners import load_learners, missing_learners
from unitail.benchmark.run import BenchRun
from unitail.benchmark.suite_file import SuiteFile
from unitail.benchmark.suites import Suite, open_suite
from unitail.processes import choose_device


@dataclass(frozen=True, kw_only=True)
class BenchSetup:
    """A suite, the folders of banks, runs and results, and settings."""

    suite: SuiteFile
    banks: Path
    runs: Path
    folder: Path
    learners: Sequence[str] = ()
    """Learners to measure, including FILE.py:NAME; if empty, the suite's that are available."""
    draws: int = 1
    device: str = "auto"

    @property
    def absent(self) -> list[str]:
        """The suite's learners that are not available; none if `learners` are named explicitly."""
        return [] if self.learners else missing_learners(self.suite.learners, self.runs)

    def open(self, shard: tuple[int, int] = (0, 1)) -> tuple[BenchRun, Suite]:
        """Open the banks and load the learners, for all the work or one shard (index, count)."""
        tested = open_suite(self.suite, self.banks)
        chosen = choose_device(self.device)
        names = self.learners or [each for each in self.suite.learners if each not in self.absent]
        run = BenchRun(
            learners=load_learners(
                self.runs, names, own=bool(self.learners), draws=self.draws, device=chosen
            ),
            tables=tested.tables,
            protocols=self.suite.protocols(),
            folder=self.folder,
            device=chosen,
            shard=shard,
        )
        return run, tested
