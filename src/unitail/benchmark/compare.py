"""Compare two learners by paired differences on the same episodes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unitail.benchmark.means import ALL_GROUPS
from unitail.errors import UserError, optional
from unitail.framework.statistics import LEVEL

RESAMPLES = 10_000
"""Default number of bootstrap resamples."""
CHUNK = 2**22
"""Number of resampled values held in memory at a time."""
ROWS_FILE = "rows.parquet"
WORDS = ("learner", "group", "encoder", "data_set", "protocol")
Words = NDArray[np.object_]


@dataclass(frozen=True, kw_only=True, eq=False)
class EpisodeRows:
    """Accuracies as columns, with one entry per episode and learner that answered it."""

    learner: Words
    group: Words
    data_set: Words
    """ENCODER/DATASET."""
    protocol: Words
    shots: NDArray[np.integer[Any]]
    hash: NDArray[np.uint64]
    """Hash of the episode."""
    accuracy: NDArray[np.float32]

    def take(self, chosen: NDArray[np.bool_]) -> "EpisodeRows":
        """Return the rows where the mask is true."""
        return EpisodeRows(**{name: column[chosen] for name, column in vars(self).items()})


class About(NamedTuple):
    """The protocol, group and data set that episodes share."""

    protocol: str
    group: str
    data_set: str


@dataclass(frozen=True, kw_only=True)
class PairedComparison:
    """The mean difference of two learners' accuracies, first minus second, with its interval."""

    first: str
    second: str
    difference: float
    low: float
    high: float
    pairs: int
    """Number of episodes that both answered."""
    data_sets: tuple[str, ...]

    @property
    def shown(self) -> bool:
        """Whether the interval excludes zero, so that one learner is shown to be better."""
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
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the bootstrap interval of the mean, over data sets, of their mean differences.

    Each resample draws every data set's episodes with replacement, as many as there are; the
    interval cuts off the same share of the resampled means at both ends.
    """
    generator = np.random.default_rng(seed)
    means = [_resampled_means(each, resamples, generator) for each in differences]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(np.mean(means, axis=0), (tail, 1 - tail))
    return float(low), float(high)


def compare_accuracies(
    first: str, second: str, differences: Mapping[str, NDArray[np.float64]], *, seed: int = 0
) -> PairedComparison:
    """Compare two learners by their differences in accuracy on each data set's episodes."""
    values = list(differences.values())
    low, high = paired_bootstrap(values, seed=seed)
    return PairedComparison(
        first=first,
        second=second,
        difference=float(np.mean([each.mean() for each in values])),
        low=low,
        high=high,
        pairs=sum(len(each) for each in values),
        data_sets=tuple(differences),
    )


def read_rows(folder: Path) -> EpisodeRows:
    """Read the per-episode rows of a benchmark's results."""
    parquet = optional("pyarrow.parquet", extra="report")
    try:
        table = parquet.read_table(folder / ROWS_FILE)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder} holds no results of a benchmark",
            got=f"{type(error).__name__} on {ROWS_FILE}",
            allowed="a folder that `unitail bench` wrote",
            remedy="Name its --out folder.",
        ) from error
    words = {name: np.array(table[name].to_pylist(), dtype=object) for name in WORDS}
    return EpisodeRows(
        learner=words["learner"],
        group=words["group"],
        data_set=words["encoder"] + "/" + words["data_set"],
        protocol=words["protocol"],
        shots=np.asarray(table["shots"]),
        hash=np.asarray(table["hash"]),
        accuracy=np.asarray(table["accuracy"]),
    )


def compare(rows: EpisodeRows, first: str, second: str, *, seed: int = 0) -> PairedComparison:
    """Compare two learners on all episodes that both have answered."""
    _check_learners(rows, (first, second))
    pairs = paired_differences(rows, first, second)
    if not pairs:
        counts = [int((rows.learner == name).sum()) for name in (first, second)]
        raise UserError(
            f"{first} and {second} have no episode in common",
            got=f"{counts[0]} and {counts[1]} answered episodes",
            allowed="answers to the same episodes",
            remedy="Run both in one benchmark, and on data sets that both can solve.",
        )
    several = len({about.protocol for about in pairs}) > 1
    names = {about: about.data_set + (f", {about.protocol}" if several else "") for about in pairs}
    differences = {names[about]: pairs[about] for about in sorted(pairs, key=names.__getitem__)}
    return compare_accuracies(first, second, differences, seed=seed)


def compare_groups(
    rows: EpisodeRows, first: str, second: str, *, seed: int = 0
) -> dict[str, PairedComparison]:
    """Compare two learners for each protocol, in each group and over all groups together.

    Groups without an episode that both answered are left out; it is an error if none remains.
    """
    pairs = paired_differences(rows, first, second)
    comparisons = {}
    for protocol in dict.fromkeys(about.protocol for about in pairs):
        groups = {
            group: {
                about.data_set: pairs[about]
                for about in sorted(pairs)
                if (about.protocol, about.group) == (protocol, group)
            }
            for group in dict.fromkeys(each.group for each in pairs if each.protocol == protocol)
        }
        if len(groups) > 1:
            groups[ALL_GROUPS] = {name: sets[name] for sets in groups.values() for name in sets}
        for group, sets in groups.items():
            comparisons[f"{protocol}, {group}"] = compare_accuracies(first, second, sets, seed=seed)
    # If nothing can be compared, `compare` raises an error that explains why.
    return comparisons or {ALL_GROUPS: compare(rows, first, second, seed=seed)}


def paired_differences(
    rows: EpisodeRows, first: str, second: str
) -> dict[About, NDArray[np.float64]]:
    """Pair the rows of two learners by protocol, group, data set and hash of the episode."""
    mine, other = (_by_episode(rows, name) for name in (first, second))
    pairs: dict[About, list[float]] = {}
    for (about, episode), accuracy in mine.items():
        if (about, episode) in other:
            pairs.setdefault(about, []).append(accuracy - other[about, episode])
    return {about: np.array(differences) for about, differences in pairs.items()}


def _by_episode(rows: EpisodeRows, learner: str) -> dict[tuple[About, int], float]:
    """Return a learner's accuracy on each episode, the first one if an episode occurs twice."""
    accuracies: dict[tuple[About, int], float] = {}
    for place in np.flatnonzero(rows.learner == learner):
        about = About(rows.protocol[place], rows.group[place], rows.data_set[place])
        accuracies.setdefault((about, int(rows.hash[place])), float(rows.accuracy[place]))
    return accuracies


def _check_learners(rows: EpisodeRows, names: Iterable[str]) -> None:
    known = list(dict.fromkeys(rows.learner))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(
            "no answers of such a learner", got=", ".join(unknown), allowed=", ".join(known)
        )


def _resampled_means(
    values: NDArray[np.float64], resamples: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Draw bootstrap means of the values: (resamples,)."""
    count = len(values)
    step = max(1, CHUNK // count)
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
