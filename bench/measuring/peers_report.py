"""The report of bench/peers.py: our learners compared with each peer."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas

from measuring.transductive_methods import GRID, Peer
from unitail.benchmark.compare import ROWS_FILE, compare_groups, read_rows
from unitail.benchmark.means import data_set_means, group_means, grouped
from unitail.benchmark.report import accuracy_cell, learner_table
from unitail.benchmark.store import TableResult
from unitail.framework.statistics import MeanInterval
from unitail.wording import markdown_table

JOINT = ("unitail_joint", "unitail_joint_balanced")
"""Our joint learners; the second assumes balanced classes, as PT-MAP does."""
OURS = (*JOINT, "unitail", "linear_probe_shrunk")
ALL = "all data sets"
LEFT_OUT = "tiny_imagenet"
"""Left out because its held-out classes helped to choose the default model."""
TEXT = """\
Ours minus each peer in points, paired by episode, averaged over the feature tables of a data set
first: mean ± half the width of Student's 95 % interval over {sets} data sets; in brackets the data
set where ours is furthest behind, or least ahead. tiny_imagenet, whose held-out classes helped to
choose the default model, is left out."""


def leads(rows: pandas.DataFrame, ours: str, other: str) -> pandas.Series:
    """Return our lead over another learner in points, by data set (averaged over encoders)."""
    episode = ["encoder", "data_set", "episode"]
    scores = [
        rows[rows["learner"] == name].set_index(episode)["accuracy"] for name in (ours, other)
    ]
    differences = 100 * (scores[0] - scores[1])
    return differences.groupby(["encoder", "data_set"]).mean().groupby("data_set").mean()


def lead_cell(leads: pandas.Series) -> str:
    """Format a mean, its interval and the worst data set."""
    if len(leads) < 2:
        return "" if leads.empty else f"{leads.mean():+.1f}"
    worst = f"{leads.idxmin()} {leads.min():+.1f}"
    lead = MeanInterval.of(leads.to_numpy())
    return f"{lead.mean:+.1f} ± {lead.half_width:.1f} ({worst})"


def lead_table(path: str, names: Sequence[str]) -> str:
    """Return a table of our lead over each peer, one row per protocol."""
    rows = pandas.read_parquet(path)
    words = ["learner", "encoder", "data_set", "protocol"]
    rows = rows.astype(dict.fromkeys(words, str))
    rows = rows[rows["data_set"] != LEFT_OUT]
    lines = []
    for protocol in rows["protocol"].unique():
        protocol_rows = rows[rows["protocol"] == protocol]
        balanced = protocol.endswith("-shot")
        for ours in JOINT if balanced else JOINT[:1]:
            cells = [lead_cell(leads(protocol_rows, ours, name)) for name in names]
            lines.append([protocol, ours, *cells])
    sets = rows["data_set"].nunique()
    table = markdown_table(["", "ours", *names], lines, rule="---")
    return "\n\n".join([TEXT.format(sets=sets), table])


def report(
    args: argparse.Namespace,
    results: Sequence[TableResult],
    chosen: Mapping[str, Mapping[str, Peer]],
) -> str:
    """Return the means over all data sets, our leads over peers, and the settings."""
    summary = group_means(replace(row, group=ALL) for row in data_set_means(results))
    rows = read_rows(args.out)
    lines = []
    for protocol, own in grouped(summary, lambda row: row.protocol).items():
        peer_rows = [row for row in own if row.learner not in OURS]
        peer = max(peer_rows, key=lambda row: row.accuracy).learner
        protocol_rows = rows.take(rows.protocol == protocol)
        for ours in JOINT:
            for what, comparison in compare_groups(protocol_rows, ours, peer).items():
                numbers = [
                    100 * value
                    for value in (comparison.difference, comparison.low, comparison.high)
                ]
                cells = ["{:+.1f}, {:+.1f} to {:+.1f}".format(*numbers), f"{comparison.pairs:,}"]
                lines.append([what, ours, peer, *cells, str(len(comparison.data_sets))])
    header = ["", "ours", "best peer", "ours minus it, 95 % interval", "pairs", "tables"]
    settings = [[name, *(str(own[name]) for own in chosen.values())] for name in GRID]
    return "\n\n".join([
        "## All data sets",
        learner_table(summary, lambda row: row.protocol, accuracy_cell, bold=True),
        lead_table(str(args.out / ROWS_FILE), list(GRID)),
        "By groups, beside the peer with the highest of the means above; bootstrap over pairs of"
        " episodes of these tables:",
        markdown_table(header, lines, rule="---"),
        "## Settings of the peers",
        "The methods and options of easyfsl 1.5.0, all episodes of a batch at once (bench/"
        "easyfsl_check.py compares). Chosen on classes that recipes train on, of"
        f" {', '.join(args.choose_on)}; for unequal shares and absent classes with Dirichlet(1).",
        markdown_table(["peer", *chosen], settings, rule="---"),
    ])  # fmt: skip
