"""Points of the default model above the strongest simple method, over data sets.

    python bench/what_to_expect.py --out results/what_to_expect.md

Reads the rows that `unitail bench` stored, for learners that answered the same episodes, which is
verified by hashes or, if rows are in a different order, by the accuracies of a learner that is in
both results. Differences are averaged over the feature tables of a data set first; intervals are
Student's over data sets, so they apply to other data sets, not to other episodes.
"""

import argparse
import shlex
import sys
from pathlib import Path

import pandas

from unitail.framework.statistics import MeanInterval

RESULTS = Path("results")
ROWS = tuple(
    RESULTS / name / "rows.parquet" for name in ("default_banks", "shrunk_centre", "tail_banks")
)
ANCHOR = "linear_probe_shrunk"
LABELS = {
    ANCHOR: "logistic regression, shrunk mean",
    "linear_probe_tuned": "logistic regression, plain mean",
    "proto_head_centred": "prototypes, plain mean",
    "unitail": "unitail, each row by itself",
    "unitail_joint": "unitail, joint",
    "unitail_joint_balanced": "unitail, joint, equal shares known",
    "tail_isolated": "TAIL (small), each row by itself",
    "tail": "TAIL (small), joint",
}
CHOSEN_ON = "tiny_imagenet"
"""Left out everywhere, because its held-out classes helped to choose the default model."""
ALL = "all"
EPISODE = ["encoder", "data_set", "shots", "episode"]
MIN_AGREEMENT = 0.999
"""Smallest share of equal accuracies between devices or row orders for one learner."""
TEXT = """\
Points above logistic regression on unit vectors around a shrunk mean (`linear_probe_shrunk`), the
strongest simple method that we know, whose accuracy is the first row: mean ± 95 % interval over
data sets. {episodes} episodes of every feature table, the same for all learners; tables of one data
set under several encoders are averaged first, so that a data set counts once. Five classes, or all
where a set has fewer; ten queries of each class. tiny_imagenet, whose held-out classes
helped to choose the default model, is left out. TAIL is the shipped model "tail", the mean of 8
draws; it was trained with equally many queries of each class, so it leans on that, as "equal shares
known" does and "joint" does not. The four PACS sets share their classes, so they are nearer to each
other than four sets at random."""


def read_rows(paths: list[Path]) -> pandas.DataFrame:
    """Join the rows of several benchmarks, restricted to episodes that all learners answered."""
    columns = ["learner", "group", *EPISODE, "hash", "accuracy"]
    words = dict.fromkeys(["learner", "group", "encoder", "data_set"], str)
    read = (pandas.read_parquet(path, columns=columns).astype(words) for path in paths)
    first, *others = (rows[rows["data_set"] != CHOSEN_ON] for rows in read)
    for path, other in zip(paths[1:], others, strict=True):
        if not same_episodes(first, other):
            raise SystemExit(f"{path} is about other episodes than {paths[0]}")
    rows = pandas.concat([first, *others]).drop_duplicates(["learner", *EPISODE])
    rows = rows[rows["learner"].isin(LABELS)]
    answered = rows.groupby(EPISODE)["learner"].transform("nunique")
    return rows[answered == len(LABELS)]


def same_episodes(first: pandas.DataFrame, other: pandas.DataFrame) -> bool:
    """Return whether two benchmarks share their episodes, by hash or by a common learner."""
    hashes = [each[[*EPISODE, "hash"]].drop_duplicates() for each in (first, other)]
    pairs = hashes[0].merge(hashes[1], on=EPISODE)
    if (pairs["hash_x"] == pairs["hash_y"]).all():
        return True
    pairs = first.merge(other, on=["learner", *EPISODE])
    return bool((pairs["accuracy_x"] == pairs["accuracy_y"]).mean() > MIN_AGREEMENT)


def means_by_data_set(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Average in % by learner, group, shots and data set; "all" pools the groups."""
    keys = ["learner", "group", "shots", "data_set"]
    tables = rows.groupby([*keys, "encoder"])["accuracy"].mean().reset_index()
    both = pandas.concat([tables, tables.assign(group=ALL)])
    return 100 * both.groupby(keys)[["accuracy"]].mean()


def cell(means: pandas.DataFrame, learner: str, group: str, shots: int) -> str:
    """Format the difference from the anchor, or the anchor's own accuracy."""
    anchor = means.loc[(ANCHOR, group, shots), "accuracy"]
    if learner == ANCHOR:
        return f"{anchor.mean():.1f} %"
    gap = MeanInterval.of(means.loc[(learner, group, shots), "accuracy"] - anchor)
    mean = round(gap.mean, 1) or 0.0  # no -0.0
    return f"{mean:+.1f} ± {gap.half_width:.1f}" if mean else f"0.0 ± {gap.half_width:.1f}"


def report(rows: pandas.DataFrame, command: str) -> str:
    """Return the page, with a table for each number of shots."""
    means = means_by_data_set(rows)
    groups = [*dict.fromkeys(rows["group"]), ALL]
    episodes = rows.groupby(["learner", "encoder", "data_set", "shots"]).size().min()
    lines = ["# What to expect of the default model", "", f"    {command}", ""]
    lines.append(TEXT.format(episodes=episodes))
    for shots in sorted(set(rows["shots"])):
        sizes = [len(means.loc[(ANCHOR, group, shots)]) for group in groups]
        titles = [f"{group} ({size} sets)" for group, size in zip(groups, sizes, strict=True)]
        lines += ["", f"## {shots} label{'s' * (shots > 1)} a class", ""]
        lines += [f"| | {' | '.join(titles)} |", "|---|" + "---|" * len(groups)]
        for learner, label in LABELS.items():
            cells = [cell(means, learner, group, shots) for group in groups]
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Read the rows and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, nargs="+", default=list(ROWS))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    command = "python " + shlex.join(sys.argv)
    args.out.write_text(report(read_rows(args.rows), command))


if __name__ == "__main__":
    main()
