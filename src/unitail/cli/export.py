"""Run `unitail export`."""

from pathlib import Path

import torch
from rich.console import Console

from unitail.cli.console import print_lines
from unitail.errors import InvalidConfig
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.saving.folder import is_classifier
from unitail.export.onnx import MIN_WIDTH, GraphSizes, export_classifier, export_model
from unitail.learners.checkpoint import load_model
from unitail.learners.pretrained import DEFAULT, SHIPPED_DRAWS, load_shipped
from unitail.wording import shown
from unitail.workflows.answer_files import check_place


def run(
    model: str, file: Path, *, support: int | None, classes: int | None, width: int | None
) -> None:
    """Export a classifier or a model, and print the inputs and outputs of the file."""
    check_place(file)
    console = Console()
    if model not in SHIPPED_DRAWS and is_classifier(Path(model)):
        _check_no_sizes({"--support": support, "--classes": classes, "--width": width})
        classifier = TailClassifier.load(Path(model), device="cpu")
        export_classifier(classifier, file)
        print_lines(
            console,
            f"Wrote {shown(file)}: vectors (rows, {classifier.n_features_in_}) to probabilities"
            f" (rows, {len(classifier.classes_)}) and class_indices (rows,).",
        )
        return
    support, classes = support or 25, classes or 5
    if width is None and model != DEFAULT:
        width = 384
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
    columns = width or f"any from {MIN_WIDTH}"
    print_lines(
        console,
        f"Wrote {shown(file)}: support ({support}, {columns}), class_indices ({support},) and"
        f" queries (any, {columns}) to probabilities (any, {classes}).",
    )


def _check_no_sizes(sizes: dict[str, int | None]) -> None:
    """Refuse sizes for a classifier, which has its own."""
    given = [name for name, size in sizes.items() if size is not None]
    if given:
        raise InvalidConfig(
            "a classifier has its own sizes",
            got=" ".join(given),
            allowed="these options for a model, such as default",
            remedy="Leave them out.",
        )
