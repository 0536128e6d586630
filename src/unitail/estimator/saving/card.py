"""The README.md of a saved classifier, which describes it to whoever finds the folder."""

from collections.abc import Mapping, Sequence
from typing import Any

MAX_CLASSES = 50
"""Largest number of classes that are listed."""
COMMAND = ["```sh", "unitail predict --model THIS_FOLDER files...", "```", ""]
"""Shown for classifiers with an encoder, which can read files."""


def card(table: Mapping[str, Any], shots: Sequence[int]) -> str:
    """Return the card in Markdown for the content of `classifier.json` and rows per class."""
    classes = table["classes"]["values"]
    shown = list(zip(classes, shots, strict=True))[:MAX_CLASSES]
    more = len(classes) - len(shown)
    versions = ", ".join(f"{name} {number}" for name, number in table["made_with"].items())
    lines = [
        "# A classifier of unitail",
        "",
        f"Learned from {sum(shots):,} labelled examples of {len(classes):,} classes."
        " It holds their vectors, not the examples themselves.",
        "",
        f"- Takes: {_inputs(table['inputs'])}",
        f"- Model: {_model(table['default_model'])}",
        f"- Prediction sets: {_sets(table['calibration'])}",
        *([f"- Beside {pool:,} rows without labels"] if (pool := table["pool_rows"]) else []),
        f"- Made with {versions}; format {table['format']}",
        "",
        *([] if table["inputs"] is None else COMMAND),
        "```python",
        'TailClassifier.load("THIS_FOLDER").predict(items)',
        "```",
        "",
        "| class | examples |",
        "|---|---:|",
        *(f"| {_cell(name)} | {count:,} |" for name, count in shown),
        *([f"| and {more:,} more | |"] if more else []),
    ]
    return "\n".join(lines) + "\n"


def _inputs(inputs: Mapping[str, Any] | None) -> str:
    if inputs is None:
        return "vectors, as they are"
    if "columns" in inputs:
        names = [column["name"] for column in inputs["columns"]["columns"]]
        return f"rows of a table with the columns {', '.join(map(_cell, names))}"
    if "parts" in inputs:
        return "; ".join(
            _inputs(part["reader"]) + (f" from the column {_cell(name)}" if name else "")
            for part in inputs["parts"]
            for name in [part["column"]]
        )
    encoder, fingerprint = inputs["encoder"], inputs["fingerprint"]
    return f"{inputs['modality']} items, encoded by {_cell(encoder)} (fingerprint {fingerprint})"


def _model(sha256: str | None) -> str:
    shipped = f"one that comes with unitail (sha256 {sha256})"
    return "in this folder" if sha256 is None else shipped


def _sets(calibration: str | None) -> str:
    return "computed on first use" if calibration is None else "calibrated"


def _cell(text: object) -> str:
    """Return a name on one line, with Markdown's special characters escaped."""
    line = " ".join(str(text).split())
    return "".join(f"\\{mark}" if mark in r"\`*_[]<>|#" else mark for mark in line)
