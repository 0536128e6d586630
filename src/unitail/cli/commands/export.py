"""`unitail export`: a classifier for programs without Python."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="What `unitail fit --save` wrote; or default, tail, tail-50w, or a model.",
        ),
    ],
    onnx: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")],
    support: Annotated[
        int, typer.Option(min=2, help="Of a model: how many examples it will read.")
    ] = 25,
    classes: Annotated[int, typer.Option(min=2, help="Of a model: of how many classes.")] = 5,
    width: Annotated[int, typer.Option(min=1, help="Of a model: how wide vectors are.")] = 384,
) -> None:
    """Write an ONNX file: a fitted classifier, or a model that reads examples.

    A classifier takes vectors, any number of rows, and gives probabilities and class indices; the
    names of classes and what sets need are in the file's metadata. A model takes examples, their
    class indices and queries; how many examples and classes there are is fixed in the file.
    Encoders, novelty and joint answers are not exported.
    """
    from unitail.cli.export import run

    run(model, onnx, support=support, classes=classes, width=width)
