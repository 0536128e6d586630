"""All that a benchmark is made from, as plain values: any process can open it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unitail.benchmark.learners import load_learners, missing_learners
from unitail.benchmark.run import BenchRun
from unitail.benchmark.suite_file import SuiteFile
from unitail.benchmark.suites import Suite, open_suite
from unitail.devices import choose_device


@dataclass(frozen=True, kw_only=True)
class BenchSetup:
    """A suite, where its banks and the trained models are, and where results go."""

    suite: SuiteFile
    banks: Path
    runs: Path
    folder: Path
    learners: Sequence[str] = ()
    """Those to be measured, FILE.py:NAME too; without it those of the suite that are here."""
    draws: int = 1
    device: str = "auto"

    @property
    def absent(self) -> list[str]:
        """The learners of the suite that are not here, unless others were asked for."""
        return [] if self.learners else missing_learners(self.suite.learners, self.runs)

    def open(self, shard: tuple[int, int] = (0, 1)) -> tuple[BenchRun, Suite]:
        """Open the banks and load the learners, for all of the work or a shard (index, count)."""
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
