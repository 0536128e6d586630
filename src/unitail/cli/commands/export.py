"""`unitail export`: write a classifier or a model as an ONNX file."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A classifier saved by `unitail fit`, or a model: default, tail, tail-50w, or the "
            "folder of a trained model.",
        ),
    ],
    onnx: Annotated[Path, typer.Option(metavar="FILE", help="ONNX file to write.")],
    support: Annotated[
        int | None,
        typer.Option(min=2, help="For a model: number of labelled examples. Default: 25."),
    ] = None,
    classes: Annotated[
        int | None, typer.Option(min=2, help="For a model: number of classes. Default: 5.")
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="For a model: width of the vectors. Default: any from 32 on for the default "
            "model, otherwise 384.",
        ),
    ] = None,
) -> None:
    """Export a fitted classifier, or a model that reads examples, to an ONNX file.

    A classifier takes vectors (any number of rows) and returns probabilities
    and class indices. The class names and the thresholds of prediction sets are
    in the file's metadata.

    A model takes examples, their class indices and queries, and returns
    probabilities. The numbers of examples and classes are fixed in the file; so
    is the width, except that the default model may take any from 32 on.

    Encoders, novelty and joint answers are not exported.
    """
    from unitail.cli.export import run

    run(model, onnx, support=support, classes=classes, width=width)
