"""`unitail encode`: encode labelled files to a feature bank, or any files to Parquet."""

from dataclasses import replace
from typing import Annotated

import typer

from unitail.answer_defaults import CHUNK_ROWS
from unitail.cli.commands import options


def encode(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER",
            help="A folder with one subfolder per class, or a table of labelled items. May be "
            "remote (s3://, gs://, ...).",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="Folder to write: the new bank, or the Parquet files.",
        ),
    ],
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Encoder, as for `unitail predict`, or FILE.py:NAME for a unitail.Encoder of your "
            "own.",
        ),
    ] = None,
    modality: options.Modality = None,
    label_column: options.LabelColumn = "label",
    content_column: options.ContentColumn = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the data set. Default: the name of the bank's folder."),
    ] = None,
    licence: Annotated[
        str, typer.Option(help="Note on the terms of use, stored in the bank.")
    ] = "",
    dtype: Annotated[
        str | None,
        typer.Option(
            help="Dtype of the stored vectors: float16 (default for banks) or float32 (default for "
            "Parquet)."
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="What to write: bank, or parquet (all rows with their vectors, for other "
            "programs; needs no labels).",
        ),
    ] = "bank",
    device: options.Device = "auto",
    engine: options.Engine = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    gpus_per_worker: options.GpusPerWorker = 0.0,
    chunk_rows: options.ChunkRows = CHUNK_ROWS,
) -> None:
    """Encode labelled files to a feature bank, or any files to Parquet.

    Feature banks are the input of `unitail train` and `unitail bench`.

    To resume an interrupted run, repeat the command. To share the work, use
    `--workers 4` on one machine, `--engine ray` on a cluster that sees the
    files and OUT under the same paths, or `torchrun --standalone
    --nproc-per-node 2 -m unitail encode ...` with one shared cache.

    Exit codes: 0, everything was encoded; 1, some files could not be read and
    are not in the bank; 2, the call is wrong.
    """
    from unitail.cli.console import read_options
    from unitail.cli.encode import run
    from unitail.engines.choice import EngineChoice

    run(
        source,
        out,
        engine=EngineChoice(engine, workers, address, gpus_per_worker, chunk_rows),
        form=form,
        options=replace(read_options(label_column, content_column, modality), one_column=True),
        encoder=encoder,
        name=name,
        licence=licence,
        dtype=dtype,
        device=device,
    )
