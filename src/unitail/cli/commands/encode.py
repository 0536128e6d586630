"""`unitail encode`: labelled files to a feature bank."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.cli.commands import options


def encode(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="A subfolder for each class; or a table of labelled items."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the new bank.")],
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="As for `unitail predict`; or FILE.py:NAME, an unitail.Encoder of your own.",
        ),
    ] = None,
    modality: options.Modality = None,
    label_column: options.LabelColumn = "label",
    content_column: options.ContentColumn = None,
    name: Annotated[
        str | None, typer.Option(help="What to call the data set; else as the bank's folder.")
    ] = None,
    licence: Annotated[str, typer.Option(help="A note on the terms of use.")] = "",
    dtype: Annotated[str, typer.Option(help="How to store features: float16, float32.")] = (
        "float16"
    ),
    device: options.Device = "auto",
) -> None:
    """Encode labelled files once, to a bank for training and benchmarks.

    Broken off, the same command goes on. Several processes share the work:
    `torchrun --nproc-per-node 2 -m unitail encode ...`, with one cache folder for all of them.
    Exit codes: 0; 1, some files could not be read and are not in the bank; 2, the call is wrong.
    """
    from unitail.cli.encode import run

    run(
        source,
        out,
        label_column=label_column,
        content_column=content_column,
        modality=modality,
        encoder=encoder,
        name=name,
        licence=licence,
        dtype=dtype,
        device=device,
    )
