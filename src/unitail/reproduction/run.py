"""Measure all suites that the available data allow, reusing stored results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unitail.benchmark.leakage import check_not_trained_on
from unitail.benchmark.learners import load_learners
from unitail.benchmark.setup import BenchSetup
from unitail.benchmark.store import TableResult
from unitail.benchmark.suite_file import SuiteFile, changed_suite, read_suite
from unitail.benchmark.suites import Suite, open_suite
from unitail.benchmark.workers import run_in_processes
from unitail.datasets.catalogue import entry_of_bank
from unitail.errors import InvalidBank, Leakage, UserError
from unitail.progress import OnProgress

SUITES = (
    *("paper_in_domain", "paper_cross_domain", "paper_cross_modal", "paper_resnet18"),
    *("paper_extrapolation", "paper_ablations"),
)
"""Suites of the paper's experiments, in the paper's order."""
NO_DATA = "none of its data are here"
NO_RUNS = "none of its learners is trained here"


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """The results of a suite."""

    suite: SuiteFile
    results: Sequence[TableResult] = ()
    """Results on the available data sets; empty if the suite was skipped."""
    skipped: str = ""
    """Why nothing was measured; empty if something was."""
    notes: Sequence[str] = ()
    missing: Sequence[str] = ()
    """Banks ENCODER/DATASET that are not available."""
    absent: Sequence[str] = ()
    """Learners without a trained model here."""
    refused: Mapping[str, str] | None = None
    """Learners that were trained on test classes, with the error message."""


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """Suites, folders of data, models and results, and settings."""

    suites: Sequence[str] = SUITES
    banks: Path
    runs: Path
    folder: Path
    encoders: Mapping[str, str] | None = None
    """Replacements of encoders: old name to new name."""
    episodes: int | None = None
    """Number of episodes; None uses the suites' own."""
    learners: Sequence[str] = ()
    draws: int = 1
    device: str = "auto"
    processes: int = 1

    def measure(self, name: str, on_progress: OnProgress | None = None) -> Measured:
        """Measure a suite, or return why it cannot be measured."""
        suite = changed_suite(
            read_suite(name).with_encoders(self.encoders or {}), {"episodes": self.episodes}
        )
        setup = BenchSetup(
            suite=suite,
            banks=self.banks,
            runs=self.runs,
            folder=self.folder / suite.name,
            learners=self.learners,
            draws=self.draws,
            device=self.device,
        )
        try:
            tested = open_suite(suite, self.banks)
        except InvalidBank:
            missing = suite.patterns()
            return Measured(suite=suite, skipped=NO_DATA, missing=missing, absent=setup.absent)
        if setup.absent and len(setup.absent) == len(suite.learners):
            return Measured(
                suite=suite, skipped=NO_RUNS, missing=tested.missing, absent=setup.absent
            )
        refused = _leaks(setup, tested)
        try:
            results, notes = self._run(_without(setup, refused), tested, on_progress)
        except UserError as error:
            return Measured(suite=suite, skipped=str(error), refused=refused)
        return Measured(
            suite=suite,
            results=results,
            notes=notes,
            missing=tested.missing,
            absent=setup.absent,
            refused=refused,
        )

    def _run(
        self, setup: BenchSetup, tested: Suite, on_progress: OnProgress | None
    ) -> tuple[list[TableResult], list[str]]:
        run, _ = setup.open()
        notes = [note for note in tested.notes() if not note.startswith("Banks of the suite")]
        notes += run.notes()
        if self.processes > 1 and run.pending():
            run_in_processes(setup, self.processes, on_progress)
        return run.run(on_progress), notes


def how_to_get(bank: str) -> str:
    """Return the commands that make a missing bank, with the source of the data."""
    encoder, _, data_set = bank.rpartition("/")
    lines = []
    for name in data_set.split("->"):
        entry = entry_of_bank(name)
        if entry is None:
            lines.append(f"unitail encode FOLDER --encoder {encoder} --out BANKS/{encoder}/{name}")
        else:
            split = name.partition("-")[2]
            chosen = f" --split {split}" if split else ""
            lines.append(
                f"unitail data prepare {entry.name}{chosen} --root ROOT --encoder {encoder}"
                f" --out BANKS   # {entry.source}"
            )
    return "\n".join(lines)


def _leaks(setup: BenchSetup, tested: Suite) -> dict[str, str]:
    """Return the learners that were trained on test classes, with the error messages."""
    names = setup.learners or [n for n in setup.suite.learners if n not in setup.absent]
    refused = {}
    for each in load_learners(setup.runs, names, own=bool(setup.learners), draws=setup.draws):
        record = each.record()
        try:
            if record is not None:
                check_not_trained_on(record, tested.tables, name=each.name)
        except Leakage as error:
            refused[each.name] = str(error)
    return refused


def _without(setup: BenchSetup, refused: Mapping[str, str]) -> BenchSetup:
    """Return the setup without the refused learners."""
    if not refused:
        return setup
    names = setup.learners or [n for n in setup.suite.learners if n not in setup.absent]
    names = names or [each.name for each in load_learners(setup.runs)]
    kept = [name for name in names if name not in refused]
    if not kept:
        raise Leakage(
            "all learners were trained on the test classes",
            got=", ".join(refused),
            allowed="learners that have not seen them",
        )
    return replace(setup, learners=kept)
