"""Plot the loss and the validation accuracy of a run from its log.

python tools/plot_run.py results/tiny_imagenet/log.jsonl results/tiny_imagenet/curve.png
"""

import argparse
import json
from pathlib import Path

from matplotlib.figure import Figure


def plot(log: Path, picture: Path) -> None:
    """Plot the loss (top) and accuracies by shots (bottom), with prototypes as dashed lines."""
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    losses = [entry for entry in entries if "loss" in entry]
    validations = [entry for entry in entries if "validation" in entry]
    figure = Figure(figsize=(7, 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(
        [entry["step"] for entry in losses], [entry["share_of_chance"] for entry in losses], lw=1
    )
    above.set_ylabel("loss, as a share of guessing")
    for number, shots in enumerate(validations[0]["validation"]):
        rows = [entry["validation"][shots] for entry in validations]
        below.errorbar(
            [entry["step"] for entry in validations],
            [100 * row["accuracy"] for row in rows],
            [100 * row["half_width"] for row in rows],
            capsize=2,
            color=f"C{number}",
            label=f"model, {shots}",
        )
        below.axhline(
            100 * rows[-1]["prototypes"],
            ls="--",
            color=f"C{number}",
            label=f"prototypes of raw features, {shots}",
        )
    episodes = rows[-1]["episodes"]
    below.set_ylabel("accuracy in % on held-out classes")
    below.set_xlabel(f"step ({episodes} validation episodes, bars are 95 % intervals)")
    below.legend()
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    plot(arguments.log, arguments.picture)
