"""What learners are tested on: suites of feature banks, in groups that are averaged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unitail.banks.bank import FeatureBank, bank_matches, named_banks
from unitail.banks.splits import split_classes
from unitail.banks.table import FeatureTable
from unitail.errors import InvalidBank, UserError
from unitail.training.config import DEFAULT_SEED
from unitail.training.recipe import HELD_OUT


@dataclass(frozen=True, kw_only=True)
class Group:
    """Data sets whose accuracies are averaged."""

    name: str
    banks: tuple[str, ...]
    """Patterns ENCODER/DATASET."""
    held_out: float | None = None
    """Test only the share of the classes that training keeps out; None for all classes."""


SUITES: dict[str, tuple[Group, ...]] = {
    "banks": (
        Group(
            name="in-domain, held-out classes",
            banks=("efflite0/tiny_imagenet",),
            held_out=HELD_OUT,
        ),
        Group(
            name="unseen image domains",
            banks=(
                "efflite0/cub200",
                "efflite0/rsscn7",
                "efflite0/dtd10",
                "efflite0/pacs_photo",
                "efflite0/pacs_art_painting",
                "efflite0/pacs_cartoon",
                "efflite0/pacs_sketch",
                "efflite0/brain_mri4",
                "efflite0/chest_xray3",
            ),
        ),
        Group(name="unseen encoder", banks=("resnet50/*",)),
        Group(name="text", banks=("minilm/*", "glove100/*")),
        Group(name="audio", banks=("yamnet/*", "whisper_tiny/*")),
    )
}
"""The testing groups by the name of the suite."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BenchTable:
    """A table to test on."""

    group: str
    """What it is averaged with."""
    bank: FeatureBank
    """The bank that it is, or whose classes it has some of."""
    table: FeatureTable
    """The classes that are tested."""

    @property
    def name(self) -> str:
        """ENCODER/DATASET."""
        return self.table.full_name


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The tables of a suite that are there."""

    tables: tuple[BenchTable, ...]
    """In the order of the suite."""
    missing: tuple[str, ...]
    """Patterns of the suite that no bank matches."""


def open_suite(name: str, folder: Path) -> Suite:
    """Open the banks of a suite; some may be missing, not all."""
    if name not in SUITES:
        raise UserError("unknown suite", got=name, allowed=", ".join(SUITES))
    banks = named_banks(folder)
    groups = SUITES[name]
    tables = [_open(group, banks[bank]) for group in groups for bank in _matching(group, banks)]
    if not tables:
        raise InvalidBank(
            f"{folder} holds no bank of the suite {name!r}",
            got=", ".join(banks) or "no banks",
            allowed=", ".join(pattern for group in groups for pattern in group.banks),
            remedy="Make banks with `unitail bank import`, or name their folder with --banks.",
        )
    patterns = [pattern for group in groups for pattern in group.banks]
    missing = [each for each in patterns if not any(bank_matches(bank, each) for bank in banks)]
    return Suite(tables=tuple(tables), missing=tuple(missing))


def _matching(group: Group, names: Iterable[str]) -> Sequence[str]:
    """List the banks of a group, pattern by pattern, each once."""
    matching = [name for pattern in group.banks for name in names if bank_matches(name, pattern)]
    return list(dict.fromkeys(matching))


def _open(group: Group, path: Path) -> BenchTable:
    bank = FeatureBank.open(path)
    if group.held_out is None:
        return BenchTable(group=group.name, bank=bank, table=bank)
    _, held_out = split_classes(bank, group.held_out, DEFAULT_SEED)
    return BenchTable(group=group.name, bank=bank, table=held_out)
