"""Is one learner better than another? Pairs of answers to the same episodes decide."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.benchmark.report_extra import optional
from unitail.errors import UserError
from unitail.framework.statistics import LEVEL

RESAMPLES = 10_000
"""The resamples of a bootstrap, if no other number is given."""
NUMBERS_AT_ONCE = 2**22
"""The resampled numbers that are in memory at once."""
ROWS_FILE = "rows.parquet"
ALL_GROUPS = "all groups"
Differences = Mapping[str, NDArray[np.float64]]
"""By data set, the difference of two learners' accuracies on each episode."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The mean difference of two learners' accuracies, first minus second, with its interval."""

    first: str
    second: str
    difference: float
    low: float
    high: float
    pairs: int
    """The episodes that both answered."""
    data_sets: tuple[str, ...]

    @property
    def shown(self) -> bool:
        """Whether the interval leaves no doubt about which is better."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        on = self.data_sets[0] if len(self.data_sets) == 1 else f"{len(self.data_sets)} data sets"
        if not self.shown:
            return (
                f"no difference can be shown: {self.first} minus {self.second} is"
                f" {_points(self.difference)} points ({_interval(self.low, self.high)};"
                f" {self.pairs} pairs of episodes on {on})"
            )
        better, worse = (self.first, self.second)[:: 1 if self.difference > 0 else -1]
        low, high = sorted((abs(self.low), abs(self.high)))
        return (
            f"{better} is better than {worse} by {_points(abs(self.difference))} points"
            f" ({_interval(low, high)}; {self.pairs} pairs of episodes on {on})"
        )


def paired_bootstrap(
    differences: Sequence[NDArray[np.float64]],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """Give the interval of the mean over data sets of their mean differences.

    Each resample draws as many episodes as there are from each data set, with replacement; the
    interval leaves out the same share of the resampled means at either end.
    """
    generator = np.random.default_rng(seed)
    means = [_resampled_means(each, resamples, generator) for each in differences]
    tail = (1 - level) / 2
    low, high = np.quantile(np.mean(means, axis=0), (tail, 1 - tail))
    return float(low), float(high)


def compare_accuracies(
    first: str, second: str, differences: Differences, *, seed: int = 0
) -> Comparison:
    """Compare two learners by the differences of their accuracies on the same episodes."""
    values = list(differences.values())
    low, high = paired_bootstrap(values, seed=seed)
    return Comparison(
        first=first,
        second=second,
        difference=float(np.mean([each.mean() for each in values])),
        low=low,
        high=high,
        pairs=sum(len(each) for each in values),
        data_sets=tuple(differences),
    )


def read_rows(folder: Path) -> Any:  # noqa: ANN401 - a frame of an optional package
    """Read the rows of a benchmark's results: a pandas frame, one row an episode and learner."""
    pandas = optional("pandas")
    optional("pyarrow.parquet")
    try:
        return pandas.read_parquet(folder / ROWS_FILE)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder} holds no results of a benchmark",
            got=f"{type(error).__name__} on {ROWS_FILE}",
            allowed="a folder that `unitail bench` wrote",
            remedy="Name its --out folder.",
        ) from error


def compare(rows: Any, first: str, second: str, *, seed: int = 0) -> Comparison:  # noqa: ANN401
    """Compare two learners on all episodes that both have answered in `rows`."""
    _check_learners(rows, (first, second))
    differences = paired_differences(rows, first, second)
    if not differences:
        counts = [int((rows["learner"] == name).sum()) for name in (first, second)]
        raise UserError(
            f"{first} and {second} have no episode in common",
            got=f"{counts[0]} and {counts[1]} answered episodes",
            allowed="answers to the same episodes",
            remedy="Run both in one benchmark, and on data sets that both can solve.",
        )
    return compare_accuracies(first, second, differences, seed=seed)


def compare_groups(
    rows: Any,  # noqa: ANN401
    first: str,
    second: str,
    *,
    seed: int = 0,
) -> dict[str, Comparison]:
    """Compare two learners for each protocol, in each group and in all groups together.

    Groups without an episode that both answered are left out; that all are so is an error.
    """
    found: dict[str, Comparison] = {}
    for protocol, asked in rows.groupby("protocol", sort=False, observed=True):
        groups = {
            group: differences
            for group, part in asked.groupby("group", sort=False, observed=True)
            if (differences := paired_differences(part, first, second))
        }
        if len(groups) > 1:
            groups[ALL_GROUPS] = {key: each for own in groups.values() for key, each in own.items()}
        for group, differences in groups.items():
            what = f"{protocol}, {group}"
            found[what] = compare_accuracies(first, second, differences, seed=seed)
    return found or {ALL_GROUPS: compare(rows, first, second, seed=seed)}  # which says why not


def paired_differences(rows: Any, first: str, second: str) -> Differences:  # noqa: ANN401
    """Pair the rows of two learners by data set, protocol and the hash of the episode."""
    keys = ["encoder", "data_set", "protocol", "hash"]
    halves = [
        rows.loc[rows["learner"] == name, [*keys, "accuracy"]].drop_duplicates(keys)
        for name in (first, second)
    ]
    pairs = halves[0].merge(halves[1], on=keys, suffixes=("", "_second"))
    difference = pairs["accuracy"].astype(float) - pairs["accuracy_second"].astype(float)
    names = pairs["encoder"].astype(str) + "/" + pairs["data_set"].astype(str)
    if pairs["protocol"].nunique() > 1:
        names += ", " + pairs["protocol"].astype(str)
    return {str(name): part.to_numpy() for name, part in difference.groupby(names)}


def _check_learners(rows: Any, names: Iterable[str]) -> None:  # noqa: ANN401
    known = list(rows["learner"].astype(str).unique())
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(
            "no answers of such a learner", got=", ".join(unknown), allowed=", ".join(known)
        )


def _resampled_means(
    values: NDArray[np.float64], resamples: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Draw means of as many values as there are, with replacement: (resamples,)."""
    count = len(values)
    step = max(1, NUMBERS_AT_ONCE // count)
    return np.concatenate(
        [
            values[generator.integers(count, size=(min(step, resamples - start), count))].mean(1)
            for start in range(0, resamples, step)
        ]
    )


def _points(value: float) -> str:
    return f"{round(100 * value, 1) + 0:.1f}"  # + 0 makes -0 plain 0


def _interval(low: float, high: float) -> str:
    return f"{LEVEL:.0%} interval {_points(low)} to {_points(high)}".replace("%", " %")
