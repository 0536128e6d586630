"""Open the feature banks of a suite as test tables, in groups that are averaged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unitail.banks.bank import FeatureBank, bank_matches, named_banks
from unitail.banks.cross import ARROW, CrossTable
from unitail.banks.splits import split_classes
from unitail.banks.table import FeatureTable
from unitail.benchmark.suite_file import ENCODER_FIELD, SuiteFile, SuiteGroup, is_cross
from unitail.errors import InvalidBank
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.tasks.bundled import ENCODER as BUNDLED
from unitail.tasks.bundled import bundled_bank, bundled_names
from unitail.training.config import DEFAULT_SEED
from unitail.wording import some


@dataclass(frozen=True, kw_only=True, eq=False)
class BenchTable:
    """A table to test on."""

    group: str
    """The group whose mean it enters."""
    bank: FeatureBank
    """The bank its rows come from; for a pair, the bank of the examples."""
    table: FeatureTable | CrossTable
    """The table with the tested classes."""
    query_bank: FeatureBank | None = None
    """The bank of the queries, if it is a different one."""
    overlap: bool = False
    """Whether classes may have the same meaning as training classes."""

    @property
    def name(self) -> str:
        """ENCODER/DATASET."""
        return self.table.full_name

    @property
    def banks(self) -> tuple[FeatureBank, ...]:
        """All banks that rows come from."""
        return (self.bank,) if self.query_bank is None else (self.bank, self.query_bank)

    @property
    def fingerprint(self) -> str:
        """Changes whenever features or labels do."""
        return " ".join(bank.fingerprint for bank in self.banks)

    def allows(self, protocol: EvaluationProtocol) -> bool:
        """Return whether at least two classes have enough rows."""
        if isinstance(self.table, CrossTable):
            query = self.table.query.class_sizes
            return protocol.allowed_by(self.table.support.class_sizes, query)
        return protocol.allowed_by(self.table.class_sizes)

    def has_one_support(self, protocol: EvaluationProtocol) -> bool:
        """Return whether all rows are examples in every episode, so the support never varies."""
        if not isinstance(self.table, CrossTable):
            return False
        sizes = self.table.support.class_sizes[self.table.query.class_sizes > 0]
        own = sizes[sizes >= protocol.shots]
        return 2 <= len(own) <= protocol.ways and int(own.max()) == protocol.shots


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The available tables of a suite."""

    file: SuiteFile
    tables: tuple[BenchTable, ...]
    """Tables, in the order of the suite."""
    missing: tuple[str, ...]
    """Patterns of the suite that no bank matches."""

    def notes(self) -> list[str]:
        """Return notes on the data for readers of the results."""
        crossed = [each.table for each in self.tables if isinstance(each.table, CrossTable)]
        dropped = [f"{each.name} ({each.shared_rows})" for each in crossed if each.shared_rows]
        marked = any(each.overlap for each in self.tables)
        pairs = [
            (crossed, f"A{ARROW}B: examples come from A, queries from B."),
            (dropped, f"Left out as queries, since they are examples, too: {', '.join(dropped)}."),
            (marked, "* Some classes may mean the same as some that were trained on."),
            (self.missing, f"Banks of the suite that are not there: {', '.join(self.missing)}."),
        ]
        return [self.file.about] * bool(self.file.about) + [text for there, text in pairs if there]


def open_suite(suite: SuiteFile, folder: Path) -> Suite:
    """Open the banks of a suite; some may be missing, but not all."""
    banks = _listed(suite, folder)
    tables: list[BenchTable] = []
    missing: list[str] = []
    for group in suite.groups:
        seen: set[tuple[str, ...]] = set()
        for short, pattern in zip(group.sets, group.patterns(suite.encoder), strict=True):
            names = [each for each in _matching(pattern, list(banks)) if each not in seen]
            seen.update(names)
            tables += [_open(group, [banks[one] for one in each], short) for each in names]
            if not _matching(pattern, list(banks)):
                missing.append(pattern)
    if not tables:
        raise InvalidBank(
            f"{folder} holds no bank of the suite {suite.name!r}",
            got=some(banks, 6) or "no banks",
            allowed=some(suite.patterns(), 6),
            remedy="Make banks with `unitail data prepare`, `unitail encode` or `unitail bank"
            " import`, name their folder with --banks, or try --suite smoke, which needs none.",
        )
    return Suite(file=suite, tables=tuple(tables), missing=tuple(missing))


def _listed(suite: SuiteFile, folder: Path) -> Mapping[str, Path | str]:
    """Return all banks by name; those of scikit-learn need no folder."""
    bundled: dict[str, Path | str] = {f"{BUNDLED}/{name}": name for name in bundled_names()}
    is_bundled = [each.startswith(f"{BUNDLED}/") for each in suite.patterns()]
    if all(is_bundled):
        return bundled
    return {**named_banks(folder), **(bundled if any(is_bundled) else {})}


def _matching(pattern: str, names: Sequence[str]) -> list[tuple[str, ...]]:
    """List the banks that match a pattern; for "A->B", the pairs."""
    if not is_cross(pattern):
        return [(name,) for name in names if bank_matches(name, pattern)]
    encoder = pattern.partition(ARROW)[0].strip().rpartition("/")[0]
    sides = [side.strip() for side in pattern.split(ARROW)]
    full = [side if "/" in side else f"{encoder}/{side}" for side in sides]
    first, second = ([name for name in names if bank_matches(name, side)] for side in full)
    return [(one, other) for one in first for other in second]


def _open(group: SuiteGroup, places: Sequence[Path | str], short: str) -> BenchTable:
    banks = [
        bundled_bank(place) if isinstance(place, str) else FeatureBank.open(place)
        for place in places
    ]
    parts: list[FeatureTable] = list(banks)
    if group.held_out is not None:
        parts = [split_classes(bank, group.held_out, DEFAULT_SEED)[1] for bank in banks]
    overlap = short in group.overlap or banks[-1].name in group.overlap
    table = parts[0] if len(parts) == 1 else CrossTable.of(*parts)
    other = banks[1] if len(banks) > 1 else None
    return BenchTable(
        group=group.name.replace(ENCODER_FIELD, table.encoder),
        bank=banks[0],
        table=table,
        query_bank=other,
        overlap=overlap,
    )
