"""`unitail encode`: labelled files to a feature bank."""

from typing import Annotated

import typer

from unitail.cli.commands import options


def encode(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER",
            help="A subfolder for each class; or a table of labelled items. Either may be an "
            "address (s3://, gs://, ...).",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="The new bank, or folder of Parquet files."
        ),
    ],
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="As for `unitail predict`; or FILE.py:NAME, a unitail.Encoder of your own.",
        ),
    ] = None,
    modality: options.Modality = None,
    label_column: options.LabelColumn = "label",
    content_column: options.ContentColumn = None,
    name: Annotated[
        str | None, typer.Option(help="What to call the data set; else as the bank's folder.")
    ] = None,
    licence: Annotated[str, typer.Option(help="A note on the terms of use.")] = "",
    dtype: Annotated[
        str | None,
        typer.Option(
            help="How to store features: float16 (else, for banks), float32 (else, for Parquet)."
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="What to write: bank, or parquet: all rows, with vectors, in files that any "
            "program reads; for those no labels are needed.",
        ),
    ] = "bank",
    device: options.Device = "auto",
    engine: options.Engine = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    gpus_per_worker: options.GpusPerWorker = 0.0,
    chunk_rows: options.ChunkRows = options.CHUNK_ROWS,
) -> None:
    """Encode labelled files once, to a bank for training and benchmarks; or any, to Parquet files.

    Broken off, the same command goes on. Several processes share the work with `--workers 4`,
    several machines with `--engine ray`, where all see the files and OUT under the same names; or
    `torchrun --standalone --nproc-per-node 2 -m unitail encode ...`, with one cache folder for all.
    Exit codes: 0; 1, some files could not be read and are not in the bank; 2, the call is wrong.
    """
    from unitail.cli.encode import run
    from unitail.engines.choice import EngineChoice
    from unitail.inputs.items import ReadOptions

    run(
        source,
        out,
        engine=EngineChoice(engine, workers, address, gpus_per_worker, chunk_rows),
        form=form,
        options=ReadOptions(label_column, content_column, modality),
        encoder=encoder,
        name=name,
        licence=licence,
        dtype=dtype,
        device=device,
    )
