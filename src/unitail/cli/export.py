"""Run `unitail export`."""

from pathlib import Path

import torch
from rich.console import Console

from unitail.cli.console import print_lines
from unitail.errors import InvalidConfig
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.saving.folder import is_classifier
from unitail.export.onnx import GraphSizes, export_classifier, export_model
from unitail.learners.checkpoint import load_model
from unitail.learners.pretrained import SHIPPED_DRAWS, load_shipped
from unitail.wording import shown
from unitail.workflows.answer_files import check_place


def run(model: str, file: Path, *, support: int, classes: int, width: int) -> None:
    """Export a classifier or a model, and print the inputs and outputs of the file."""
    check_place(file)
    console = Console()
    if model not in SHIPPED_DRAWS and is_classifier(Path(model)):
        classifier = TailClassifier.load(Path(model), device="cpu")
        export_classifier(classifier, file)
        print_lines(
            console,
            f"Wrote {shown(file)}: vectors (rows, {classifier.n_features_in_}) to probabilities"
            f" (rows, {len(classifier.classes_)}) and class_indices (rows,).",
        )
        return
    if support < classes:
        raise InvalidConfig(
            "there are fewer examples than classes",
            got=f"--support {support} --classes {classes}",
            allowed="at least one example per class",
            remedy="Raise --support.",
        )
    if model in SHIPPED_DRAWS:
        network = load_shipped(model, torch.device("cpu"), torch.float32)
    else:
        network = load_model(Path(model))
    export_model(network, GraphSizes(support=support, classes=classes, width=width), file)
    print_lines(
        console,
        f"Wrote {shown(file)}: support ({support}, {width}), class_indices ({support},) and queries"
        f" (any, {width}) to probabilities (any, {classes}).",
    )
