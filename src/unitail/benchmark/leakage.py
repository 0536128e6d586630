"""Check that a trained model has not seen the classes it is tested on."""

from collections.abc import Iterable

from unitail.banks.bank import FeatureBank
from unitail.banks.splits import split_classes
from unitail.benchmark.suites import BenchTable
from unitail.errors import Leakage
from unitail.training.config import DEFAULT_SEED
from unitail.training.recipe import HELD_OUT, BankChoice
from unitail.training.run_folder import RunRecord
from unitail.wording import some


def check_not_trained_on(run: RunRecord, tables: Iterable[BenchTable], *, name: str) -> None:
    """Raise if a run has trained on classes of the tables, with any encoder's features."""
    for table in tables:
        trained = {each for bank in table.banks for each in trained_classes(run, bank)}
        shared = [each for each in table.table.class_names if each in trained]
        if shared:
            raise Leakage(
                f"{name} was trained on classes of {table.name}, a test set",
                got=f"{len(shared)} in common: {some(shared)}",
                allowed="no class in both",
                remedy="Leave out the run (name the others with --learner) or the data set (name a"
                " suite without it), or train it again without the data set, or with the held-out"
                f" classes of `held_out` = {HELD_OUT}"
                f" and `seed` = {DEFAULT_SEED}.",
            )


def trained_classes(run: RunRecord, bank: FeatureBank) -> set[str]:
    """Return the classes of a bank's data set that a run, or the model it started from, has seen.

    Classes are matched by name, whatever the encoder.
    """
    seen = trained_classes(run.start.record, bank) if run.start else set()
    for choice in run.recipe.sources:
        if isinstance(choice, BankChoice) and bank.name in _data_sets(choice, run.data):
            if bank.name in choice.held_out_from:
                part, _ = split_classes(bank, choice.held_out, run.recipe.training.seed)
                seen |= set(part.class_names)
            else:
                seen |= set(bank.class_names)
    return seen


def _data_sets(choice: BankChoice, banks: Iterable[str]) -> set[str]:
    """Return the data sets that a choice trained on, given the run's banks."""
    # The data set is what follows the last slash: encoders from a hub have slashes in their names.
    chosen = {bank.rsplit("/", 1)[1] for bank in banks if choice.matches(bank)}
    return {each for each in chosen if choice.data_set_weights.get(each) != 0}
